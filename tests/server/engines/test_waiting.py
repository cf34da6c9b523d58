"""How ggml's threads wait: what the user has set stays."""

from __future__ import annotations

import os

import pytest

from daneel.server.engines.waiting import SPIN_COUNT, spin_shortly


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": SPIN_COUNT}),
        ({"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
    ],
)
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: dict[str, str]) -> None:
    monkeypatch.setattr("os.environ", {**given})
    spin_shortly()
    assert dict(os.environ) == expected
