"""The lock against overlap: held by one process at a time, and by nobody once that process is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daneel.errors import UserError
from daneel.harness.run_lock import LockHeld, lock_name, lock_path, run_lock

HOLD = """
import sys, time
from daneel.harness.run_lock import run_lock
with run_lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def hold(name: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, name], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_holder_is_told_who_holds_it() -> None:
    holder = hold("brief")
    try:
        with pytest.raises(LockHeld, match=rf"another run holds the lock \(process {holder.pid}, since 20"), run_lock("brief"):
            pass
        with run_lock("another"):
            pass
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_holder_leaves_no_lock(how: int) -> None:
    holder = hold("brief")
    holder.send_signal(how)
    holder.communicate()
    with run_lock("brief"):
        pass


def test_it_ends_with_its_block_also_by_an_exception() -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError), run_lock("brief"):
            raise RuntimeError
    with run_lock("brief"), pytest.raises(LockHeld), run_lock("brief"):
        pass


def test_what_a_tool_left_running_does_not_hold_it() -> None:
    with run_lock("brief"):
        left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    try:
        with run_lock("brief"):
            pass
    finally:
        left.kill()
        left.wait()


def test_names_make_different_files_that_can_be_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "news.py"
    first, second = lock_path(lock_name(file, "brief")), lock_path(lock_name(file, "weather"))
    assert first != second
    assert first.name.startswith("news.py-")
    monkeypatch.chdir(tmp_path)
    assert lock_path(lock_name(Path("news.py"), "brief")) == first
    assert lock_path("../../etc/passwd").parent == first.parent
    assert lock_path("..").parent == first.parent


def test_no_lock_is_better_than_a_wrong_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="must not be empty"), run_lock(" "):
        pass
    target = tmp_path / "precious"
    target.write_text("keep me")
    path = lock_path("brief")
    path.parent.mkdir(parents=True)
    os.symlink(target, path)
    with pytest.raises(UserError, match="cannot be opened"), run_lock("brief"):
        pass
    assert target.read_text() == "keep me"
    monkeypatch.setenv("DANEEL_DATA_DIR", str(target))
    with pytest.raises(UserError, match="cannot be opened"), run_lock("brief"):
        pass
