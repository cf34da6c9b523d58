"""The `daneel` script as a process: its standard streams, whatever state it is given them in."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.scripted_server import ScriptedServer, text

FILE = "from daneel import Harness\nharness = Harness()\n"


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`command` in a shell, `daneel` in it being ours."""
    script = f'daneel() {{ {shlex.quote(sys.executable)} -m daneel "$@"; }}; {command}'
    environment = {**os.environ, "DANEEL_DATA_DIR": str(folder / "data"), **environment}
    return subprocess.run(["sh", "-c", script], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "h.py").write_text(FILE)
    return tmp_path


def test_ctrl_c_while_the_program_is_still_being_imported(folder: Path) -> None:
    (folder / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    ran = shell("daneel --version", folder, PYTHONPATH=str(folder))
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "daneel: interrupted\n")


def test_an_encoding_that_lacks_the_characters(folder: Path) -> None:
    with ScriptedServer([text("Zoë → 12:00")]) as server:
        ran = shell(f"daneel run h.py hi --server {server.url}", folder, PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Zo\\xeb \\u2192 12:00\n")
    listed = shell("daneel transcripts show last && daneel init Zoë", folder, PYTHONIOENCODING="ascii")
    assert (listed.returncode, listed.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("options", ["", "--json"])
def test_a_full_disk_under_standard_output_is_one_sentence(folder: Path, options: str) -> None:
    with ScriptedServer([text("12:00")]) as server:
        ran = shell(f"daneel run h.py hi --server {server.url} {options} >/dev/full", folder)
    assert ran.returncode == 2
    assert ran.stderr == "daneel: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("options", ["", "--json"])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_standard_stream_that_is_closed_is_no_reason_to_fail(folder: Path, closed: str, options: str) -> None:
    with ScriptedServer([text("12:00")]) as server:
        ran = shell(f"daneel run h.py hi --server {server.url} {options} {closed}", folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ("12:00" in ran.stdout) is (">&-" not in closed.replace("2>&-", ""))
