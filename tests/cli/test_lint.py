"""`daneel lint`: the static part, on a file; tokens by characters, or by a server that counts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import ScriptedServer

from daneel.cli.main import main
from daneel.harness.client import Client

FILE = """
from daneel import Harness, tool

@tool(description="TODO")
def my_date() -> str:
    return "2026-12-01"

@tool
def cur_time() -> str:
    '''Get current time'''
    print("a tool may print")
    return "12:00"

bad = Harness(tools=[my_date, cur_time])
good = Harness(tools=[cur_time])
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.py"
    path.write_text(FILE)
    return path


def lint(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["daneel", "lint", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_findings_are_told_and_the_exit_code_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    assert lint(monkeypatch, file) == 1
    out = capsys.readouterr().out
    assert "my_date's description is a placeholder" in out
    assert "good: nothing found" in out
    assert "4 characters a token" in out
    assert lint(monkeypatch, file, "--harness", "good") == 0


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert lint(monkeypatch, file, "--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert [(finding["kind"], finding["tools"]) for finding in said["findings"]] == [("description", ["my_date"])]
    assert not said["ok"]


def test_a_file_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert lint(monkeypatch, tmp_path / "none.py") == 2
    assert "no such file" in capsys.readouterr().err


def test_the_served_tokenizer_is_asked_where_a_server_is_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    asked: list[str] = []

    def tokenize(client: Client, text: str) -> list[str]:
        asked.append(text)
        return list(text)

    monkeypatch.setattr(Client, "tokenize", tokenize)
    with ScriptedServer([]) as server:
        lint(monkeypatch, file, "--server", server.url)
    assert {"my_date", "cur_time"} <= set(asked)
    assert "tokens of" in capsys.readouterr().out


def test_a_server_that_has_no_tokenizer_is_said_to_have_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    with ScriptedServer([]) as server:
        assert lint(monkeypatch, file, "--server", server.url) == 2
    assert "/v1/tokenize" in capsys.readouterr().err


def test_a_client_reads_the_pieces_and_refuses_what_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [{"pieces": ["a", "b"]}, {"pieces": [1]}, {}, []]
    with ScriptedServer([]) as server, Client(server.url, wait=lambda _: None) as client:
        connection = type(client._rotation.current.connection)
        monkeypatch.setattr(connection, "post", lambda self, path, content, *, end_at, from_root=False: answers.pop(0))
        assert client.tokenize("ab") == ["a", "b"]
        for _ in range(3):
            with pytest.raises(Exception, match="no pieces"):
                client.tokenize("ab")
