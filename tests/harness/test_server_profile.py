"""Profiles are kept whole, found again, and change what a run does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.scripted_server import ScriptedServer, calls, text

from daneel import Harness, tool
from daneel.errors import UserError
from daneel.harness import server_profile
from daneel.harness.client import Client
from daneel.harness.loop import run
from daneel.harness.server_profile import ServerProfile, profile_of


@tool
def cur_time() -> str:
    """Get current time"""
    return "12:00"


HARNESS = Harness(tools=[cur_time])
NEVER = {"none": False, "required": False, "named": False}


def test_it_is_found_for_the_same_server_and_model_only() -> None:
    profile = ServerProfile("http://a/v1", "m", result_style="plain", tool_choice={"named": False})
    path = server_profile.save(profile, {"findings": {}})
    assert server_profile.find("http://a/v1", "m") == profile
    assert server_profile.find("http://a/v1", "other") is None
    assert server_profile.find("http://b/v1", "m") is None
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"version": 1, "profile": {"result_style": "odd"}}', '{"version": 1, "profile": 3}', "\xff"]
)
def test_a_file_that_is_no_profile_is_said(content: str) -> None:
    path = server_profile.path_of("http://a/v1", "m")
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="latin-1")
    with pytest.raises(UserError, match="run `daneel doctor` again"):
        server_profile.find("http://a/v1", "m")


def test_a_profile_of_another_layout_is_none() -> None:
    path = server_profile.path_of("http://a/v1", "m")
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 99}')
    assert server_profile.find("http://a/v1", "m") is None


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DANEEL_CONFIG_DIR", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot be written"):
        server_profile.save(ServerProfile("http://a/v1", "m"), {})


@pytest.fixture
def peer() -> Iterator[tuple[ScriptedServer, Client]]:
    script = [calls(("cur_time", {})), text("12:00"), text("I will call cur_time now."), text("12")]
    with ScriptedServer(script, owned_by="someone") as server, Client(server.url) as client:
        yield server, client


def test_results_go_as_plain_messages_where_the_model_finishes_with_those(peer: tuple[ScriptedServer, Client]) -> None:
    server, client = peer
    client.profile = ServerProfile(client.base_url, "scripted", result_style="plain")
    finished = run(HARNESS, "What time is it?", client=client)
    assert [message["role"] for message in server.requests[1]["messages"]] == ["user", "assistant", "user"]
    told = [event.data["effects"] for event in finished.events if event.kind == "server_profile"]
    assert told == [["results go as plain messages"]]


@pytest.mark.parametrize("style", ["native", "plain"])
def test_what_the_harness_says_wins(peer: tuple[ScriptedServer, Client], style: str) -> None:
    server, client = peer
    client.profile = ServerProfile(client.base_url, "scripted", result_style="plain" if style == "native" else "native")
    finished = run(HARNESS.with_changes(tool_result_style=style), "What time is it?", client=client)
    assert server.requests[1]["messages"][-1]["role"] == ("tool" if style == "native" else "user")
    assert all(event.kind != "server_profile" for event in finished.events)


def test_tool_choice_is_not_tried_where_it_is_not_honoured(peer: tuple[ScriptedServer, Client]) -> None:
    server, client = peer
    run(HARNESS, "What time is it?", client=client)
    client.profile = ServerProfile(client.base_url, "scripted", tool_choice=NEVER)
    run(HARNESS, "What time is it?", client=client)
    assert len(server.requests) == 4
    assert all("tool_choice" not in request for request in server.requests)


def test_a_profile_of_another_server_counts_for_nothing(peer: tuple[ScriptedServer, Client]) -> None:
    _, client = peer
    client.profile = ServerProfile("http://other/v1", "scripted", result_style="plain", tool_choice=NEVER)
    assert profile_of(client) == ServerProfile()
    assert profile_of(object()) == ServerProfile()


@pytest.mark.parametrize(
    ("known", "refused"),
    [
        ({}, set()),
        (NEVER, {"tool_choice"}),
        ({"required": False, "named": False}, {"tool_choice"}),
        ({"named": False}, set()),
        ({**NEVER, "none": True}, set()),
        ({**NEVER, "required": True}, set()),
    ],
)
def test_what_is_not_worth_trying(known: dict[str, bool], refused: set[str]) -> None:
    assert ServerProfile(tool_choice=known).refused_changes() == refused
