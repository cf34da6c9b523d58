"""Secrets are replaced wherever they stand, and nothing else is."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import calls, text
from tests.support.stage import Stage

from daneel import Harness, tool
from daneel.harness.safety.policy import SafetyPolicy
from daneel.harness.safety.secrets import Redactor, secret_values
from daneel.harness.transcript import TranscriptStore

# put together here, so that no scanner takes this file for a leak
FORMS = {
    "API key": "sk-" + "proj-Abc123Def456Ghi789",
    "GitHub token": "ghp" + "_abcdefghijklmnopqrstuvwxyz0123",
    "Hugging Face token": "hf" + "_abcdefghijklmnopqrstuvwx",
    "AWS key": "AKIA" + "ABCDEFGHIJKLMNOP",
    "Google key": "AIza" + "SyA-abcdefghijklmnopqrstuvwxyz01234",
    "Slack token": "xoxb" + "-123456789012-abcdefghijkl",
    "web token": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0",
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
}
VALUE = "correct-horse-battery"


@pytest.mark.parametrize("what", FORMS)
def test_keys_are_known_by_their_form(what: str) -> None:
    said = Redactor({}).text(f"key={FORMS[what]}; rest")
    assert said == f"key=[redacted: {what}]; rest"


def test_half_a_private_key_is_one() -> None:
    assert "MIIE" not in Redactor({}).text("-----BEGIN " + "PRIVATE KEY-----\nMIIEow\nnever ends")


def test_a_password_in_a_url_goes_and_the_rest_stays() -> None:
    assert Redactor({}).text("at https://me:hunter22@example.org/x") == "at https://me:[redacted: password]@example.org/x"


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "DB_PASSWORD", "GITHUB_TOKEN", "AUTH_SECRET", "apikey", "SESSION_COOKIE"])
def test_values_of_the_environment_are_known_by_their_names(name: str) -> None:
    assert Redactor({name: VALUE}).text(f"it is {VALUE}!") == f"it is [redacted: {name}]!"


@pytest.mark.parametrize(
    ("name", "value"),
    [("PATH", "/usr/bin:/bin"), ("HOME", "/home/me/long"), ("PWD", "somewhere-long"), ("KEYBOARD", "layout-us-long"),
     ("API_KEY", "short"), ("KEY_FILE", "key-file-name"), ("SSH_AUTH_SOCK", "/run/agent.sock"), ("TOKEN", "aaaaaaaaaaaa")],
)  # fmt: skip
def test_what_is_no_secret_stays(name: str, value: str) -> None:
    assert secret_values({name: value}) == []


def test_the_longer_of_two_values_goes_first() -> None:
    said = Redactor({"A_TOKEN": VALUE, "B_TOKEN": VALUE + "-staple"}).text(f"{VALUE}-staple")
    assert said == "[redacted: B_TOKEN]"


def test_data_is_cleaned_at_any_depth_and_left_alone_without_secrets() -> None:
    redactor = Redactor({"A_TOKEN": VALUE})
    clean = {"a": [1, "x", {"b": None}]}
    assert redactor.data(clean) is clean
    assert redactor.data({"a": [{VALUE: VALUE}], "n": 1}) == {"a": [{"[redacted: A_TOKEN]": "[redacted: A_TOKEN]"}], "n": 1}


def test_ordinary_prose_and_code_stay() -> None:
    text = "sk-learn, the risk-averse, hf_hub, a key: value, eyJ, ghp, Bearer of news, https://example.org/a@b"
    assert Redactor({}).text(text) == text


@tool(effects="read")
def read_settings() -> str:
    """Read the settings"""
    return f"key = {FORMS['API key']}\npassword = {VALUE}"


@pytest.mark.parametrize("owned_by", ["daneel", "someone"])
def test_a_secret_is_neither_sent_nor_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owned_by: str) -> None:
    monkeypatch.setenv("MY_PASSWORD", VALUE)
    harness = Harness(tools=[read_settings], system=f"The password is {VALUE}.", safety=SafetyPolicy(allow=["read"]))
    script = [calls(("read_settings", {}), content=f"I say {VALUE}"), text("Done.")]
    seen: list[Any] = []

    class Watcher:
        def on_event(self, event: Any) -> None:
            seen.append(event.to_dict())

        def on_delta(self, delta: Any) -> None: ...

    with Stage() as stage, TranscriptStore(tmp_path / "t.db") as store:
        run, requests = stage.play(
            script, harness, prompt=f"Use {VALUE}", transcript=store, observer=Watcher(), owned_by=owned_by
        )
        stored = sqlite3.connect(tmp_path / "t.db").execute("SELECT group_concat(data) FROM events").fetchone()[0]
        about = sqlite3.connect(tmp_path / "t.db").execute("SELECT group_concat(about) FROM runs").fetchone()[0]
    assert run.stop_reason == "answered"
    everything = [json.dumps(requests), stored, about, json.dumps(run.to_dict(), default=str), json.dumps(seen, default=str)]
    for written in everything:
        assert VALUE not in written
        assert FORMS["API key"] not in written
    assert "[redacted: MY_PASSWORD]" in json.dumps(requests)


def test_redaction_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", VALUE)
    harness = Harness(tools=[read_settings], safety=SafetyPolicy(allow=["read"], redact=False))
    with Stage() as stage:
        _, requests = stage.play([calls(("read_settings", {})), text("Done.")], harness)
    assert VALUE in json.dumps(requests[-1])
