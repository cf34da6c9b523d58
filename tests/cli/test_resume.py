"""`daneel resume` on runs that were really killed: processes, a server over HTTP, the command line's own words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import HANG, ScriptedServer, calls, sse, text

from daneel.harness.transcript import TranscriptStore

FILE = '''
import os
import signal
from pathlib import Path

from daneel import Harness, tool
from daneel.harness.safety.policy import SafetyPolicy


@tool(effects="write")
def post(letter: str) -> str:
    """Post a letter."""
    with open("posted", "a") as file:  # in the folder where the run began
        file.write(letter + "\\n")
    if Path("dies").exists():
        Path("dies").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"posted {letter}"


harness = Harness(tools=[post], safety=SafetyPolicy(allow=["write"]))
'''


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "other").mkdir()
    (tmp_path / "desk.py").write_text(FILE)
    return tmp_path


def daneel(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "daneel", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def killed_while_it_posts(desk: Path, *more: str) -> None:
    (desk / "dies").touch()
    with ScriptedServer([calls(("post", {"letter": "A"}))]) as server:
        killed = daneel(desk, "run", "desk.py", "Post A.", "--server", server.url, *more)
    assert killed.returncode == -signal.SIGKILL
    assert (desk / "posted").read_text() == "A\n"


def state() -> str:
    with TranscriptStore() as store:
        return store.find("last").state


def test_a_killed_run_goes_on_and_the_model_is_told_what_nobody_knows(desk: Path) -> None:
    killed_while_it_posts(desk, "--max-turns", "5")
    assert state() == "interrupted"
    with ScriptedServer([text("It may have been posted.")]) as server:
        resumed = daneel(desk / "other", "resume", "--server", server.url, "--json")
        assert resumed.returncode == 0, resumed.stderr
        told = server.requests[0]["messages"][-1]
    said = json.loads(resumed.stdout)
    assert (said["answer"], said["turns"]) == ("It may have been posted.", 2)
    assert [event["kind"] for event in said["events"]] == ["resumed", "unknown_outcome"]
    assert told["role"] == "tool"
    assert "Nobody knows" in told["content"]
    assert (desk / "posted").read_text() == "A\n"
    assert state() == "answered"


def test_rerun_and_skip(desk: Path) -> None:
    killed_while_it_posts(desk)
    assert "exclude each other" in daneel(desk, "resume", "--rerun", "--skip").stderr
    with ScriptedServer([text("Posted.")]) as server:
        resumed = daneel(desk / "other", "resume", "last", "--rerun", "--server", server.url)
        assert resumed.returncode == 0, resumed.stderr
        assert "posted A" in server.requests[0]["messages"][-1]["content"]
    assert (desk / "posted").read_text() == "A\nA\n"
    assert not (desk / "other" / "posted").exists()
    again = daneel(desk, "resume")
    assert (again.returncode, again.stdout) == (2, "")
    assert "is over (answered)" in again.stderr


@pytest.mark.parametrize(("typed", "posted"), [("y", "A\nA\n"), ("n", "A\n")])
def test_at_a_terminal_a_person_is_asked(desk: Path, typed: str, posted: str) -> None:
    killed_while_it_posts(desk)
    pty = pytest.importorskip("pty")
    with ScriptedServer([text("Done.")]) as server:
        mine, its = pty.openpty()
        command = [sys.executable, "-m", "daneel", "resume", "--server", server.url]
        with subprocess.Popen(command, cwd=desk, stdin=its, stdout=subprocess.DEVNULL, stderr=its) as process:
            os.close(its)
            shown = b""
            while b"[y/N]" not in shown:
                shown += os.read(mine, 1000)
            os.write(mine, typed.encode() + b"\n")
            drain = threading.Thread(target=_drain, args=(mine,), daemon=True)
            drain.start()
            assert process.wait() == 0
    assert b'post({"letter": "A"})' in shown
    assert (desk / "posted").read_text() == posted


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 1000):
            pass
    except OSError:
        return


def test_a_harness_that_has_changed(desk: Path) -> None:
    killed_while_it_posts(desk)
    (desk / "desk.py").write_text(FILE.replace("Post a letter.", "Post one letter."))
    refused = daneel(desk, "resume")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    for part in ("another harness", "tool post", "--anyway"):
        assert part in refused.stderr
    assert state() == "interrupted"
    with ScriptedServer([text("Done.")]) as server:
        assert daneel(desk, "resume", "--anyway", "--server", server.url).returncode == 0
        assert server.requests[0]["tools"][0]["function"]["description"] == "Post one letter."


def test_options_and_the_goal_come_from_the_record(desk: Path) -> None:
    goal = "\n\nfrom daneel import goal\n\n@goal(prompt='Post A.')\ndef posted(trial):\n    return trial.answer == 'Done.'\n"
    (desk / "desk.py").write_text(FILE + goal)
    (desk / "dies").touch()
    options = ("--goal", "posted", "--temperature", "0.5", "--seed", "7", "--max-turns", "3")
    with ScriptedServer([calls(("post", {"letter": "A"}))]) as server:
        assert daneel(desk, "run", "desk.py", "--server", server.url, *options).returncode == -signal.SIGKILL
    with ScriptedServer([text("Done.")]) as server:
        resumed = daneel(desk / "other", "resume", "--json", "--server", server.url)
        assert (server.requests[0]["temperature"], server.requests[0]["seed"]) == (0.5, 7)
    said: dict[str, Any] = json.loads(resumed.stdout)
    assert (said["goal"], said["achieved"]) == ("posted", True)


def test_a_run_that_ctrl_c_ended_goes_on_at_the_same_server(desk: Path) -> None:
    with ScriptedServer([sse(b": wait\n\n", HANG), text("Here I am.")]) as server:
        command = [sys.executable, "-m", "daneel", "run", "desk.py", "Hello", "--server", server.url]
        with subprocess.Popen(command, cwd=desk, stdout=subprocess.DEVNULL) as process:
            while not server.requests and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            assert process.wait() == 130
        assert state() == "cancelled"
        resumed = daneel(desk, "resume")
        assert resumed.returncode == 0, resumed.stderr
        assert "Here I am." in resumed.stdout
        assert "resumed after turn 0" in resumed.stdout
        assert server.requests[0]["messages"] == server.requests[1]["messages"]


def test_what_cannot_go_on_is_said_in_a_sentence(desk: Path) -> None:
    assert "no run" in daneel(desk, "resume").stderr
    killed_while_it_posts(desk)
    gone = daneel(desk, "resume")
    assert gone.returncode == 2
    assert "Traceback" not in gone.stderr
    (desk / "desk.py").unlink()
    assert "no such file" in daneel(desk, "resume").stderr
