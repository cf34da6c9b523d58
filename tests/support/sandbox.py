"""Marks tests that run programs as models write them."""

from __future__ import annotations

import pytest

from daneel.harness.safety.confinement import NoSandbox
from daneel.harness.safety.sandbox import find_sandbox


def has_sandbox() -> bool:
    try:
        find_sandbox()
    except NoSandbox:
        return False
    return True


sandboxed = pytest.mark.skipif(not has_sandbox(), reason="programs of models run in a sandbox or not at all")
