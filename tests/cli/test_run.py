"""`daneel run` as a person meets it: a process, its output and its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import HANG, ScriptedServer, calls, error, raw, text
from typer.testing import CliRunner

from daneel.cli.main import app, main
from daneel.cli.server_options import KEY_VARIABLES
from daneel.errors import UserError

HARNESS = '''
from daneel import Harness, goal, tool

@tool
def cur_time() -> str:
    """Get current time"""
    print("a tool that prints")
    return "12:00:00"

harness = Harness(tools=[cur_time])

@goal(prompt="What time is it?")
def now(trial):
    return "12:00" in (trial.answer or "")

@goal(prompt="What time is it?")
def odd(trial):
    raise RuntimeError("a broken check")
'''
TIME = calls(("cur_time", {}), reasoning="Look at the clock.")
ANSWER = text("It is \x1b[31m12:00.")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path / "data"))
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "h.py"
    path.write_text(HARNESS)
    return path


def daneel(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "daneel", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def invoke(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("flags", [[], ["--no-stream"]])
def test_a_goal_is_run_and_judged(file: Path, flags: list[str]) -> None:
    with ScriptedServer([TIME, ANSWER]) as server:
        result = invoke("run", file, "--goal", "now", "--server", server.url, *flags)
        assert server.requests[0]["stream"] is (not flags)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:2] == ["Look at the clock.", "→ cur_time()"]
    assert "← 12:00:00" in lines
    assert "It is ␛[31m12:00." in lines  # what a model writes cannot colour the terminal
    assert lines[-2].startswith("answered: 2 turns, 1 call, ")
    assert lines[-1] == "goal now: achieved"


def test_json_is_one_object_and_nothing_else(file: Path) -> None:
    with ScriptedServer([TIME, ANSWER]) as server:
        result = daneel("run", file, "--goal", "now", "--server", server.url, "--json", "--seed", 5)
        assert server.requests[0]["seed"] == 5
    assert result.returncode == 0
    record = json.loads(result.stdout)
    assert {"id", "stop_reason", "answer", "turns", "calls", "usage", "messages", "events"} <= set(record)
    assert (record["stop_reason"], record["turns"], record["achieved"], record["goal"]) == ("answered", 2, True, "now")
    assert record["calls"] == [{"name": "cur_time", "arguments": {}, "result": "12:00:00", "error": None}]
    assert result.stderr.strip() == "a tool that prints"


def test_a_goal_with_a_set_up_is_run_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("h.py").write_text(
        "from pathlib import Path\n"
        "from daneel import Harness, goal\n"
        "from daneel.tools import read_file\n"
        "harness = Harness(tools=[read_file('.')])\n"
        "@goal(prompt='What is in it?', setup=lambda workspace: (workspace / 'in.txt').write_text('milk'))\n"
        "def told(trial):\n"
        "    return trial.workspace == Path.cwd() and 'milk' in trial.calls[0].result\n"
    )
    Path("key").write_text("k1\n")
    Path("then.py").write_text("print('in the folder it was called from')\n")
    with ScriptedServer([calls(("read_file", {"path": "in.txt"})), text("Milk.")]) as server:
        options = ("--server", server.url, "--goal", "told", "--json", "--key-file", "key")
        done = daneel("run", "h.py", *options, "--then", f"{sys.executable} then.py")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["achieved"] is True
    assert sorted(path.name for path in tmp_path.iterdir() if path.name not in ("data", "config")) == ["h.py", "key", "then.py"]


def test_a_prompt_is_run_without_a_verdict(file: Path) -> None:
    with ScriptedServer([ANSWER]) as server:
        result = invoke("run", file, "What time?", "--server", server.url, "--json")
        assert server.requests[0]["messages"] == [{"role": "user", "content": "What time?"}]
    assert "achieved" not in json.loads(result.stdout)


def test_exit_code_1_when_there_is_no_answer(file: Path) -> None:
    with ScriptedServer([TIME]) as server:
        result = invoke("run", file, "--goal", "now", "--server", server.url, "--max-turns", "1")
    assert result.exit_code == 1
    assert "no answer within 1 turns" in result.stdout
    assert "goal now: not achieved" in result.stdout
    with ScriptedServer([error(400, "no")]) as server:
        result = invoke("run", file, "--goal", "now", "--server", server.url)
    assert result.exit_code == 1
    assert "not judged, the run was invalid" in result.stdout


def test_a_check_that_raises_is_no_verdict(file: Path) -> None:
    with ScriptedServer([ANSWER]) as server:
        result = invoke("run", file, "--goal", "odd", "--server", server.url, "--json")
    record = json.loads(result.stdout)
    assert (result.exit_code, record["achieved"]) == (0, None)
    assert "RuntimeError: a broken check" in record["verdict"]


def test_options_reach_the_request(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-123")
    with ScriptedServer([TIME, ANSWER]) as server:
        options = ["--temperature", "0.3", "--first-tool-choice", "required", "--model", "m"]
        assert invoke("run", file, "hi", "--server", server.url, *options).exit_code == 0
        first, second = server.requests
        assert (first["temperature"], first["tool_choice"], first["model"]) == (0.3, "required", "m")
        assert "tool_choice" not in second
        assert server.headers[0]["authorization"] == "Bearer k-123"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.py", "hi"], "no such file"),
        (["h.py"], "either a prompt or --goal NAME (the file has: now, odd)"),
        (["h.py", "hi", "--goal", "now"], "either a prompt or --goal"),
        (["h.py", "--goal", "none"], "no goal none; it has now, odd"),
        (["h.py", "hi", "--harness", "none"], "no harness none"),
        (["h.py", "hi", "--server", "http://127.0.0.1:9"], "cannot reach the server"),
        (["h.py", "hi", "--server", "x", "--serve", "y"], "exclude each other"),
        (["h.py", "hi", "--max-turns", "0"], "max_turns"),
        (["h.py", "hi", "--server", ""], "must look like http://host:port"),
        (["h.py", "hi", "--temperature", "nan"], "temperature must be"),
        (["h.py", "hi", "--first-tool-choice", "none_such"], "none_such"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    file: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr(sys, "argv", ["daneel", "run", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1


def test_a_refused_key_is_bad_input(file: Path) -> None:
    with ScriptedServer([], models=error(401, "no or wrong key")) as server:
        result = invoke("run", file, "hi", "--server", server.url)
    assert isinstance(result.exception, UserError)
    assert "no or wrong key" in str(result.exception)


def test_a_store_that_cannot_be_opened_does_not_stop_the_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANEEL_DATA_DIR", str(file))
    with ScriptedServer([ANSWER]) as server:
        result = invoke("run", file, "hi", "--server", server.url)
    assert result.exit_code == 0
    assert "it goes on without transcripts" in result.stderr


def test_ctrl_c_ends_as_cancelled_with_a_closed_transcript(file: Path) -> None:
    with ScriptedServer([TIME, raw(b" ", HANG)]) as server:
        command = [sys.executable, "-m", "daneel", "run", str(file), "hi", "--server", server.url, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
        assert process.stderr is not None
        assert process.stderr.readline() == "a tool that prints\n"
        while len(server.requests) < 2:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 130
    record = json.loads(out)
    assert (record["stop_reason"], record["turns"], len(record["calls"])) == ("cancelled", 1, 1)
    listed = json.loads(daneel("transcripts", "list", "--json").stdout)
    assert [run["state"] for run in listed] == ["cancelled"]


THEN = """
import json, os, sys
wanted = ("DANEEL_RUN_ID", "DANEEL_STOP_REASON", "DANEEL_ACHIEVED")
said = {"argv": sys.argv[1:], "stdin": sys.stdin.read(), **{name: os.environ.get(name) for name in wanted}}
print("what the command prints", flush=True)
open(sys.argv[1], "w").write(json.dumps(said))
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def command(tmp_path: Path) -> Any:
    """Makes a command line for --then that writes down what it was given, and reads that."""
    script, out = tmp_path / "then.py", tmp_path / "said.json"
    script.write_text(THEN)

    class Command:
        def line(self, exit_code: int = 0, more: str = "") -> str:
            return f"'{sys.executable}' '{script}' '{out}' {exit_code} {more}"

        def said(self) -> Any:
            return json.loads(out.read_text()) if out.exists() else None

    return Command()


def test_then_gets_the_answer_and_no_shell_sees_the_command(file: Path, command: Any) -> None:
    with ScriptedServer([TIME, ANSWER]) as server:
        line = command.line(more="'$HOME' '; touch x' \"a b\"")
        result = daneel("run", file, "--goal", "now", "--server", server.url, "--json", "--then", line)
    assert result.returncode == 0, result.stderr
    record = json.loads(result.stdout)
    said = command.said()
    assert said["stdin"] == "It is \x1b[31m12:00.\n"
    assert said["argv"][2:] == ["$HOME", "; touch x", "a b"]
    assert (said["DANEEL_RUN_ID"], said["DANEEL_STOP_REASON"], said["DANEEL_ACHIEVED"]) == (record["id"], "answered", "true")
    assert "what the command prints" in result.stderr  # standard output holds the one object alone


def test_a_then_that_fails_has_an_exit_code_of_its_own(file: Path, command: Any) -> None:
    with ScriptedServer([ANSWER, ANSWER]) as server:
        result = daneel("run", file, "hi", "--server", server.url, "--then", command.line(exit_code=7))
        assert (result.returncode, result.stderr.splitlines()[-1][:15]) == (3, "daneel: --then:")
        assert "failed with exit code 7" in result.stderr
        slow = [sys.executable, "-c", "'import time; time.sleep(60)'"]
        result = daneel("run", file, "hi", "--server", server.url, "--then", " ".join(slow), "--then-timeout", "0.2")
    assert result.returncode == 3
    assert "was not done within 0.2 s" in result.stderr


def test_without_an_answer_only_the_other_command_runs(file: Path, command: Any) -> None:
    with ScriptedServer([error(400, "no")]) as server:
        result = daneel("run", file, "hi", "--server", server.url, "--then", "false", "--or-else", command.line(exit_code=9))
    assert result.returncode == 1  # that there is no answer outweighs what became of the message about it
    said = command.said()
    assert said["stdin"].startswith("invalid: ")
    assert (said["DANEEL_STOP_REASON"], said["DANEEL_ACHIEVED"]) == ("invalid", "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no-such-program-here x", "there is no program no-such-program-here"),
        ("cd /tmp", "for a shell's features write: sh -c"),
        ("echo 'open", "cannot be read"),
        ("  ", "there is no command"),
    ],
)
def test_a_then_that_cannot_run_is_found_before_the_model_is_asked(file: Path, line: str, said: str) -> None:
    with ScriptedServer([ANSWER]) as server:
        result = daneel("run", file, "hi", "--server", server.url, "--then", line)
        assert server.requests == []
    assert result.returncode == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("options", [["--no-overlap"], ["--lock", "morning"]])
def test_overlapping_runs_are_refused_with_a_code_of_their_own(file: Path, options: list[str]) -> None:
    with ScriptedServer([raw(b" ", HANG), ANSWER, ANSWER]) as server:
        line = ["run", str(file), "--goal", "now", "--server", server.url, *options]
        first = subprocess.Popen(
            [sys.executable, "-m", "daneel", *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while len(server.requests) < 1:
            assert first.poll() is None
        refused = daneel(*line)
        assert (refused.returncode, refused.stdout) == (75, "")
        assert f"another run holds the lock (process {first.pid}, since" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
        other = daneel("run", file, "another question", "--server", server.url, *options)
        assert other.returncode == (0 if options == ["--no-overlap"] else 75)
        first.kill()  # nothing to clean up after a kill
        first.communicate()
        again = daneel(*line)
        assert again.returncode == 0, again.stderr


def test_sigterm_ends_as_cancelled_and_no_command_runs(file: Path, command: Any) -> None:
    with ScriptedServer([TIME, raw(b" ", HANG)]) as server:
        line = [sys.executable, "-m", "daneel", "run", str(file), "hi", "--server", server.url, "--json"]
        line += ["--then", command.line(), "--or-else", command.line()]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(server.requests) < 2:
            assert process.poll() is None
        process.terminate()
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 143
    assert json.loads(out)["stop_reason"] == "cancelled"
    assert command.said() is None
