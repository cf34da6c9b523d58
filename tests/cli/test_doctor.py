"""`daneel doctor` as a person meets it; what it keeps is used by `daneel run`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.harness.doctor.test_examination import good_peer, ignoring_peer
from tests.support.scripted_server import HANG, ScriptedServer, calls, error, raw, text
from typer.testing import CliRunner

from daneel.cli.local_server import LocalServer
from daneel.cli.main import app, main
from daneel.harness import server_profile

HARNESS = '''
from daneel import Harness, tool

@tool
def cur_time() -> str:
    """Get current time"""
    return "12:00:00"

harness = Harness(tools=[cur_time])
'''


def invoke(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DANEEL_API_KEY", "OPENAI_API_KEY", "DANEEL_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_a_report_for_people() -> None:
    with ScriptedServer(good_peer, owned_by="someone") as server:
        result = invoke("doctor", server.url)
        kept = server_profile.path_of(f"{server.url}/v1", "scripted")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].endswith(" requests")
    for heading in ("server", "calls", "tool choice", "this machine", "what the harness will do"):
        assert heading in lines
    assert any(line.split() == ["required", "honoured"] for line in lines)
    assert lines[-1].startswith(f"Kept in {kept}")
    assert "1/" in result.stderr
    assert "a prompt that is too long" in result.stderr


def test_json_is_one_object_and_the_profile_is_used_by_run(tmp_path: Path) -> None:
    (tmp_path / "h.py").write_text(HARNESS)
    script: list[Any] = []
    with ScriptedServer(lambda request: script.pop(0) if script else ignoring_peer(request), owned_by="someone") as server:
        result = invoke("doctor", server.url, "--json")
        report = json.loads(result.stdout)
        assert report["profile"]["result_style"] == "plain"
        assert {"findings", "recovery", "sandbox", "saved", "num_requests"} <= set(report)
        script[:] = [calls(("cur_time", {})), text("It is 12:00.")]
        ran = invoke("run", tmp_path / "h.py", "What time is it?", "--server", server.url)
        assert server.requests[-1]["messages"][-1]["role"] == "user"
    assert ran.exit_code == 0
    assert "as daneel doctor has found: results go as plain messages" in ran.stdout


def test_without_a_model_nothing_is_kept() -> None:
    with ScriptedServer(lambda request: text("OK."), owned_by="someone", models=error(200, {"data": []})) as server:
        result = invoke("doctor", server.url)
    assert result.exit_code == 0
    assert "Nothing is kept" in result.stdout
    assert not server_profile.folder().exists()


def test_a_broken_profile_does_not_stop_a_run(tmp_path: Path) -> None:
    (tmp_path / "h.py").write_text(HARNESS)
    with ScriptedServer([text("It is noon.")], owned_by="someone") as server:
        path = server_profile.path_of(f"{server.url}/v1", "scripted")
        path.parent.mkdir(parents=True)
        path.write_text("{")
        ran = invoke("run", tmp_path / "h.py", "What time is it?", "--server", server.url)
    assert ran.exit_code == 0
    assert "is not a profile" in ran.stderr


def test_an_examination_that_ends_early_says_so_and_keeps_nothing() -> None:
    with ScriptedServer(lambda request: raw(HANG), owned_by="someone") as server:
        result = invoke("doctor", server.url, "--timeout", "0.2")
        assert not server_profile.path_of(f"{server.url}/v1", "scripted").exists()
    assert result.exit_code == 1
    assert "Not examined to the end: it gives no reply to a plain question." in result.stdout
    result = invoke("doctor", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "the server cannot be reached" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ftp://x"], "must look like http://host:port"),
        (["http://192.0.2.1"], "--insecure-http"),
        (["127.0.0.1:9", "--timeout", "0"], "must be above 0"),
        (["127.0.0.1:9", "--key", "a", "--key", "b"], "takes one key"),
        (["127.0.0.1:9", "--ca-cert", "none.pem"], "cannot be read"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["daneel", "doctor", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert (printed.out, len(printed.err.splitlines())) == ("", 1)
    assert said in printed.err


def test_our_own_server_with_a_script() -> None:
    with LocalServer(None, engine="scripted", on_progress=lambda line: None) as url:
        result = invoke("doctor", url, "--json")
    report = json.loads(result.stdout)
    # it has no model: it says only what it is told to, so a plain question gets no reply
    assert report["findings"]["server"]["owned_by"]["value"] == "daneel"
    assert report["ended_early"] == "it gives no reply to a plain question"


def test_our_own_server_reports_broken_calls(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    lines = [
        {"text": '<tool_call>\n{"name": "add", "arguments": {"a": 1,, "b" 2}\n</tool_call>', "match": "1,, ", "repeat": True},
        {"text": '<tool_call>\n{"name": "save_text", "arguments": {"text": "the qu', "match": "save_text", "finish": "length"},
        {"text": "OK.", "repeat": True},
    ]
    script.write_text("\n".join(json.dumps(line) for line in lines))
    with LocalServer(None, engine="scripted", extra_args=["--script", str(script)], on_progress=lambda line: None) as url:
        result = invoke("doctor", url, "--json", "--no-save")
    report = json.loads(result.stdout)
    assert result.exit_code == 0, result.stdout
    assert report["saved"] is None
    fates = {name: report["findings"]["calls"][name]["value"] for name in ("malformed", "truncated")}
    assert fates == {"malformed": "reported", "truncated": "reported"}
    assert report["findings"]["fields"]["unknown"]["value"] == "reported"
    assert report["profile"]["result_style"] is None
