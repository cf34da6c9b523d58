"""`daneel mcp`: the whole way round. daneel's own MCP client asks daneel's own MCP server, whose model is scripted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.support.scripted_server import ScriptedServer, calls, text

from daneel import mcp_tools
from daneel.cli.main import main
from daneel.harness.transcript import TranscriptStore

pytest.importorskip("mcp")

FILE = """
from daneel import Harness, tool

@tool
def cur_time() -> str:
    '''Get current time'''
    print("this must not get into the protocol")
    return "12:00:00"

clock = Harness(tools=[cur_time])
"""


def test_the_whole_way_round(tmp_path: Path) -> None:
    file = tmp_path / "agent.py"
    file.write_text(FILE)
    with ScriptedServer([calls(("cur_time", {})), text("It is 12:00.")]) as server:
        command = [sys.executable, "-m", "daneel", "mcp", str(file), "--server", server.url, "--description", "Tells the time."]
        [clock] = mcp_tools(command=command, env={"DANEEL_DATA_DIR": str(tmp_path)})
        assert (clock.name, clock.description) == ("clock", "Tells the time.")
        assert clock(prompt="What time is it?") == "It is 12:00."
    with TranscriptStore(tmp_path / "transcripts.db") as store:
        [row] = store.runs()
    assert row.state == "answered"
    assert row.about["prompt"] == "What time is it?"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--harness", "no_such"], "there is no harness no_such"),
        (["--server", "http://127.0.0.1:9"], "127.0.0.1:9"),
    ],
)
def test_what_cannot_be_served(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    complaint: str,
) -> None:
    file = tmp_path / "agent.py"
    file.write_text(FILE)
    monkeypatch.setattr("sys.argv", ["daneel", "mcp", str(file), *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_description_is_for_one_harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent.py"
    file.write_text(FILE + "\nother = Harness()\n")
    monkeypatch.setattr("sys.argv", ["daneel", "mcp", str(file), "--description", "x"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--description is for one harness" in capsys.readouterr().err
