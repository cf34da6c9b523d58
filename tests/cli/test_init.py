"""`daneel init`: the starter runs as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import ScriptedServer, calls, text
from typer.testing import CliRunner

from daneel.cli.main import app
from daneel.errors import UserError


def invoke(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("answer", ["The letter r occurs 3 times.", "Three times."])
def test_the_starter_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path / "data"))
    result = invoke("init", tmp_path / "new" / "folder")
    path = tmp_path / "new" / "folder" / "harness.py"
    assert result.exit_code == 0
    assert f"daneel run {path} --goal letters" in result.stdout
    with ScriptedServer([calls(("count_letter", {"word": "strawberry", "letter": "r"})), text(answer)]) as server:
        record = json.loads(invoke("run", path, "--goal", "letters", "--server", server.url, "--json").stdout)
    assert (record["achieved"], record["calls"][0]["result"]) == (True, "3")


def test_the_commands_to_try_can_be_pasted(tmp_path: Path) -> None:
    result = invoke("init", tmp_path / "my agent")
    assert f"daneel run '{tmp_path}/my agent/harness.py' --goal" in result.stdout


def test_it_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "harness.py").write_text("mine")
    result = invoke("init", tmp_path)
    assert isinstance(result.exception, UserError)
    assert (tmp_path / "harness.py").read_text() == "mine"


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert isinstance(invoke("init", tmp_path / "file").exception, UserError)
    assert isinstance(invoke("init", tmp_path / "file" / "inside").exception, UserError)
