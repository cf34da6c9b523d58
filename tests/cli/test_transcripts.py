"""`daneel transcripts` on runs that were really made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import ScriptedServer, calls, text
from typer.testing import CliRunner

from daneel import Harness, tool
from daneel.cli.main import app
from daneel.errors import UserError
from daneel.harness.client import Client
from daneel.harness.loop import run
from daneel.harness.transcript import TranscriptStore


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
        '! call not made, the model is told: argument "b" is missing',
        "Both.",
        '! repaired (values): {"a": "1", "b": 2}',
        "→ add(a=1, b=2)",
        "← 3",
        "It is 3.",
        "answered",
    ]
    assert lines == wanted
    whole = json.loads(invoke("show", "last", "--json").stdout)
    assert [event["kind"] for event in whole["events"]][-1] == "stop"


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
