"""Nothing of the machine's own: an empty home, empty caches, no settings of pip's or the hub's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def empty_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of the test, without any store in it."""
    home = tmp_path_factory.mktemp("home")
    for name in [*os.environ]:
        if name.startswith(("PIP_", "HF_", "HUGGINGFACE_", "OLLAMA_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("DANEEL_CACHE_DIR", str(home / "daneel-cache"))
    # the service's folder, which no variable moves
    monkeypatch.setattr("daneel.server.models.stores._OLLAMA_SERVICE_DIR", home / "no-service")
    return home
