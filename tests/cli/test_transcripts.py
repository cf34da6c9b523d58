"""`daneel transcripts` on runs that were really made."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import ScriptedServer, calls, error, sse, text
from typer.testing import CliRunner

from daneel import Harness, tool
from daneel.cli.main import app
from daneel.errors import UserError
from daneel.harness.client import Client
from daneel.harness.loop import run
from daneel.harness.transcript import TranscriptStore

COST = "what the turn took"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["transcripts", *arguments])


@pytest.fixture
def run_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path / "data"))
    script = [calls(("add", {"a": 1})), calls(("add", {"a": "1", "b": 2}), reasoning="Both."), text("It is 3.")]
    harness = Harness(tools=[add], name="adder", system="Be brief.")
    with ScriptedServer(script) as server, Client(server.url) as client, TranscriptStore() as store:
        return run(harness, "What is 1 + 2?", client=client, transcript=store.labelled(goal="sum")).id


def test_list(run_id: str) -> None:
    out = invoke("list").stdout
    for part in (run_id, "answered", "adder", "sum", "What is 1 + 2?"):
        assert part in out
    (row,) = json.loads(invoke("list", "--json").stdout)
    assert (row["id"], row["state"], row["turns"], row["goal"]) == (run_id, "answered", 3, "sum")


def test_list_without_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path))
    assert "No runs yet" in invoke("list").stdout
    assert json.loads(invoke("list", "--json").stdout) == []


def test_show_tells_the_run_as_it_went(run_id: str) -> None:
    lines = invoke("show", run_id[:6]).stdout.splitlines()
    wanted = [
        f"run {run_id} (harness adder, goal sum)",
        "system: Be brief.",
        "user: What is 1 + 2?",
        "— turn 1, tools: add",
        COST,
        '! call not made, the model is told: argument "b" is missing',
        "— turn 2",
        "Both.",
        COST,
        '! repaired (values): {"a": "1", "b": 2}',
        "→ add(a=1, b=2)",
        "← 3",
        "— turn 3",
        "It is 3.",
        COST,
        "answered",
    ]
    lines = [COST if re.fullmatch(r"  \d+ tokens in \(\d+ from cache\), \d+ out, \d+\.\d s", line) else line for line in lines]
    assert lines == wanted
    whole = json.loads(invoke("show", "last", "--json").stdout)
    assert [event["kind"] for event in whole["events"]][-1] == "stop"


def test_show_one_turn_and_long_results(run_id: str) -> None:
    lines = invoke("show", run_id, "--turn", "2").stdout.splitlines()
    assert lines[1].startswith("— turn 2")
    assert "It is 3." not in "".join(lines)
    with TranscriptStore() as store:
        result = json.dumps({"id": "x", "name": "add", "result": "y" * 5000, "error": None})
        store.write("UPDATE events SET data = ? WHERE run_id = ? AND kind = 'result'", (result, run_id), durable=False)
    assert "y" * 5000 not in invoke("show", run_id).stdout
    assert "y" * 5000 in invoke("show", run_id, "--full").stdout


def test_what_is_piped_has_no_colours(run_id: str) -> None:
    assert "\x1b" not in invoke("show", run_id).stdout


ADDER = """
from daneel import Harness, tool

@tool
def add(a: int, b: int) -> int:
    '''Add two numbers.'''
    return a + b + {plus}

adder = Harness(tools=[add], name="adder", system="Be brief.")
"""


def test_replay(run_id: str, tmp_path: Path) -> None:
    file = tmp_path / "adder.py"
    file.write_text(ADDER.format(plus=0))
    same = invoke("replay", run_id, "--file", str(file))
    assert (same.exit_code, same.stdout.splitlines()[-1]) == (0, "no differences")
    assert "It is 3." in same.stdout
    file.write_text(ADDER.format(plus=1))
    other = invoke("replay", run_id, "--file", str(file), "--quiet")
    assert other.exit_code == 1
    assert "the harness has changed: tool add" in other.stdout
    assert '"result": "3"' in other.stdout
    assert '"result": "4"' in other.stdout
    found = json.loads(invoke("replay", run_id, "--file", str(file), "--json").stdout)
    assert (found["same"], found["stop_reason"], found["turns"]) == (False, "answered", 3)
    assert [difference["what"] for difference in found["differences"]] == ["result"]
    # it was started from Python: no file is on record
    assert isinstance(invoke("replay", run_id).exception, UserError)


def test_bytes_that_were_not_kept(run_id: str) -> None:
    assert "--keep-bytes" in str(invoke("bytes", run_id).exception)


def test_export_atif(run_id: str) -> None:
    (found,) = [json.loads(line) for line in invoke("export", run_id, "--format", "atif").stdout.splitlines()]
    assert (found["schema_version"], found["session_id"], found["agent"]["name"]) == ("ATIF-v1.7", run_id, "daneel")
    assert found["agent"]["tool_definitions"][0]["function"]["name"] == "add"
    steps = found["steps"]
    assert [step["step_id"] for step in steps] == [1, 2, 3, 4, 5]
    assert [step["source"] for step in steps] == ["system", "user", "agent", "agent", "agent"]
    assert [step["message"] for step in steps] == ["Be brief.", "What is 1 + 2?", "", "", "It is 3."]
    (call,) = steps[3]["tool_calls"]
    assert (call["function_name"], call["arguments"]) == ("add", {"a": 1, "b": 2})
    assert steps[3]["observation"] == {"results": [{"source_call_id": call["tool_call_id"], "content": "3"}]}
    assert steps[3]["reasoning_content"] == "Both."
    assert {event["kind"] for event in steps[3]["extra"]["events"]} == {"repaired"}
    counted = [step["metrics"]["prompt_tokens"] for step in steps[2:]]
    assert found["final_metrics"]["total_prompt_tokens"] == sum(counted) > 0
    assert found["final_metrics"]["total_steps"] == 5
    assert found["extra"]["state"] == "answered"


def test_export_atif_says_where_the_conversation_was_made_shorter(run_id: str) -> None:
    with TranscriptStore() as store:
        values = (run_id, json.dumps({"reason": "estimate", "tiers": ["results"]}))
        store.write("INSERT INTO events VALUES (?, 1000, 1.0, 'compacted', 3, ?)", values, durable=False)
    (found,) = [json.loads(line) for line in invoke("export", run_id, "--format", "atif").stdout.splitlines()]
    last = found["steps"][-1]
    assert (last["source"], last["step_id"]) == ("system", 6)
    assert last["extra"]["context_management"] == {"type": "compaction", "boundary": "truncate"}
    assert last["extra"]["tiers"] == ["results"]


def test_export(run_id: str, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in invoke("export").stdout.splitlines()]
    assert lines[0]["kind"] == "run"
    assert [line["seq"] for line in lines[1:]] == list(range(1, len(lines)))
    (plain,) = [json.loads(line) for line in invoke("export", run_id, "--format", "openai").stdout.splitlines()]
    roles = [message["role"] for message in plain["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert plain["tools"][0]["function"]["name"] == "add"

    target = tmp_path / "out.jsonl"
    assert invoke("export", run_id, "-o", str(target)).exit_code == 0
    assert len(target.read_text().splitlines()) == len(lines)
    again = invoke("export", run_id, "-o", str(target))
    assert isinstance(again.exception, UserError)


def test_an_unknown_id(run_id: str) -> None:
    assert isinstance(invoke("show", "zzz").exception, UserError)


def test_what_the_server_sent_is_kept_byte_for_byte_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path / "data"))
    file = tmp_path / "adder.py"
    file.write_text(ADDER.format(plus=0))
    frame = b'data: {"choices": [{"index": 0, "delta": {"content": "Caf\xc3\xa9"}, "finish_reason": "stop"}]}\r\n\r\n'
    broken = error(500, "broken")
    for options, kept in (((), False), (("--keep-bytes",), True), (("--keep-bytes", "--no-stream"), True)):
        with ScriptedServer([sse(b": hello\n\n", frame)]) as server:
            ran = CliRunner().invoke(app, ["run", str(file), "Hi", "--server", server.url, *options])
            assert ran.exit_code == 0, ran.output
        out = invoke("bytes", "last")
        assert (out.exit_code == 0) is kept
        if kept:
            assert out.stdout_bytes == b": hello\n\n" + frame + b"data: [DONE]\n\n"
    with ScriptedServer([broken]) as server:
        assert CliRunner().invoke(app, ["run", str(file), "Hi", "--server", server.url, "--keep-bytes"]).exit_code == 1
    assert b"broken" in invoke("bytes", "last", "--turn", "1").stdout_bytes
