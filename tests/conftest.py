"""Fixtures every test may use: the small real model, shared reference data, directories of the test's own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("sampled", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("exhaustive", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sampled"))

# A shell starts background jobs with Ctrl-C ignored, and what they start inherits that: tests of Ctrl-C need it back.
signal.signal(signal.SIGINT, signal.default_int_handler)

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Reference data beside the checkout; tests that use it are skipped where it is absent."""
    path = REPO.parent / "shared"
    if not (path / "cases").is_dir():
        pytest.skip("no reference data beside this checkout")
    return path


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, pulled on first use. Failing to get it fails the test: a skip would hide a broken pull."""
    from daneel.server.models import resolve

    return Path(resolve("smollm2-135m").path)


@pytest.fixture(autouse=True)
def _own_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the user's own transcripts, or reads their configuration."""
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("DANEEL_CONFIG_DIR", str(tmp_path / "config"))
