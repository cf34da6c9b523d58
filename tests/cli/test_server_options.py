"""The options that say which servers a command talks to, on the commands that have them."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import ScriptedServer, text
from typer.testing import CliRunner

from daneel.cli.main import app
from daneel.cli.server_options import KEY_VARIABLES
from daneel.errors import UserError

TLS = Path(__file__).resolve().parent.parent / "support" / "tls"
COMMANDS = {
    "run": lambda file: ["run", file, "Hello?"],
    "measure": lambda file: ["measure", file, "--trials", "1"],
    "chat": lambda file: ["chat", file],
}
HARNESS = """
from daneel import Harness, goal
harness = Harness()

@goal(prompt="Hello?")
def greeted(trial):
    return "Hi" in (trial.answer or "")
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*KEY_VARIABLES, "DANEEL_API_KEY_FILE", "DANEEL_CA_CERT", "DANEEL_INSECURE_HTTP"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "h.py"
    path.write_text(HARNESS)
    return path


def invoke(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def gone() -> str:
    with ScriptedServer([]) as server:
        return server.url


@pytest.mark.parametrize("command", ["run", "measure"])
def test_the_second_server_stands_in_for_the_first(file: Path, command: str) -> None:
    with ScriptedServer([text("Hi!")], model="m") as second:
        result = invoke(*COMMANDS[command](file), "--server", gone(), "--server", second.url, "--json")
    assert result.exit_code == 0, result.output
    assert second.num_unused == 0
    told = json.loads(result.stdout)
    assert told["server"] == second.url
    if command == "run":
        (event,) = [event for event in told["events"] if event["kind"] == "failed_over"]
        assert (event["to"], event["model"]) == (second.url, "m")
        assert "cannot reach the server" in event["error"]


def test_a_person_is_told_of_it(file: Path) -> None:
    with ScriptedServer([text("Hi!")], model="m") as second:
        result = invoke("run", file, "Hello?", "--server", gone(), "--server", second.url)
    assert f"{second.url} does, with the model m" in result.stdout


def test_no_server_of_several_is_there(file: Path) -> None:
    first, second = gone(), gone()
    with pytest.raises(UserError) as caught:
        CliRunner().invoke(app, ["run", str(file), "Hello?", "--server", first, "--server", second], catch_exceptions=False)
    assert first in str(caught.value)
    assert second in str(caught.value)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("address", ["http://192.0.2.1:8080", "192.0.2.1", "http://myhost/v1"])
def test_plain_http_to_another_machine_is_refused(file: Path, command: str, address: str) -> None:
    result = invoke(*COMMANDS[command](file), "--server", address)
    assert isinstance(result.exception, UserError)
    assert "--insecure-http" in str(result.exception)
    assert "plain HTTP to another machine" in str(result.exception)


def test_keys(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "key"
    kept.write_text("from-file\n\n")
    for options, environment, sent in (
        (["--key", "given"], {}, "given"),
        (["--key-file", kept], {}, "from-file"),
        ([], {"OPENAI_API_KEY": "general"}, "general"),
        ([], {"OPENAI_API_KEY": "general", "DANEEL_API_KEY": "own"}, "own"),
        ([], {"OPENAI_API_KEY": "general", "DANEEL_API_KEY_FILE": str(kept)}, "from-file"),
        (["--key", "given"], {"DANEEL_API_KEY": "own"}, "given"),
    ):
        with monkeypatch.context() as patch, ScriptedServer([text("Hi!")]) as server:
            for name, value in environment.items():
                patch.setenv(name, value)
            assert invoke("run", file, "Hello?", "--server", server.url, *options).exit_code == 0
            assert server.headers[0]["authorization"] == f"Bearer {sent}"


def test_one_key_for_each_server(file: Path) -> None:
    with ScriptedServer([text("Hi!")]) as second:
        servers = ["--server", gone(), "--server", second.url]
        assert invoke("run", file, "Hello?", *servers, "--key", "a", "--key", "b").exit_code == 0
        assert second.headers[0]["authorization"] == "Bearer b"
        refused = invoke("run", file, "Hello?", *servers, "--key", "a", "--key", "b", "--key", "c")
    assert "3 keys for 2 servers" in str(refused.exception)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), ("", "holds none"), ("a\nb", "holds 2"), ("a b", "cannot be sent in a header")],
)
def test_key_files_that_hold_no_key(file: Path, tmp_path: Path, content: str | None, said: str) -> None:
    kept = tmp_path / "key"
    if content is not None:
        kept.write_text(content)
    result = invoke("run", file, "Hello?", "--key-file", kept)
    assert isinstance(result.exception, UserError)
    assert said in str(result.exception)


def test_a_server_with_a_certificate_of_its_own(file: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    with ScriptedServer([text("Hi!")], tls=context) as server:
        assert server.url.startswith("https://")
        result = invoke("run", file, "Hello?", "--server", server.url)
        assert isinstance(result.exception, UserError)
        assert "is not trusted" in str(result.exception)
        assert "--ca-cert" in str(result.exception)
        result = invoke("run", file, "Hello?", "--server", server.url, "--ca-cert", TLS / "cert.pem")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), ("nothing", "no certificate in PEM form")])
def test_certificate_files_that_are_none(file: Path, tmp_path: Path, content: str | None, said: str) -> None:
    pem = tmp_path / "ca.pem"
    if content is not None:
        pem.write_text(content)
    result = invoke("run", file, "Hello?", "--server", "https://localhost:1", "--ca-cert", pem)
    assert isinstance(result.exception, UserError)
    assert said in str(result.exception)
