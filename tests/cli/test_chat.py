"""`daneel chat` as a person meets it: at a terminal (a pty), and through a pipe."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import HANG, Reply, ScriptedServer, calls, error, sse, text
from tests.support.scripted_server import chunk as piece
from tests.support.terminal import Terminal

HARNESS = '''
from daneel import Harness, tool

@tool(repeats=True)
def look() -> str:
    """Look around"""
    return "a tree"

harness = Harness(tools=[look], max_turns=None)
'''
LOOK = calls(("look", {}))
Open = Callable[..., Terminal]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("DANEEL_API_KEY", raising=False)
    (tmp_path / "h.py").write_text(HARNESS)
    return tmp_path


@pytest.fixture
def terminal(folder: Path) -> Iterator[Open]:
    opened: list[Terminal] = []

    def open_one(server: ScriptedServer) -> Terminal:
        opened.append(Terminal(folder, "chat", "h.py", "--server", server.url))
        opened[-1].until("> ")
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def said(request: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message.get("content") or "") for message in request["messages"]]


def looks_until_told(request: dict[str, Any]) -> Reply:
    """A model that goes on looking for as long as nobody says more than the first thing."""
    return LOOK if sum(role == "user" for role, _ in said(request)) < 2 else text("Tree.")


def test_questions_answers_and_leaving(terminal: Open) -> None:
    with ScriptedServer([text("Hello."), LOOK, text("A tree.")]) as server:
        person = terminal(server)
        person.type("Hi\n")
        person.until("Hello.")
        person.until("> ")
        person.type("Look\n")
        assert "→ look()" in person.until("A tree.")
        person.until("> ")
        person.type("/quit\n")
        assert person.ended() == 0
        assert said(server.requests[1]) == [("user", "Hi"), ("assistant", "Hello."), ("user", "Look")]
    listed = subprocess.run([sys.executable, "-m", "daneel", "transcripts", "list", "--json"], capture_output=True, text=True)
    assert [(run["state"], run["turns"]) for run in json.loads(listed.stdout)] == [("answered", 3)]


def test_what_is_typed_while_it_works_is_heard_at_the_next_turn(terminal: Open) -> None:
    with ScriptedServer(looks_until_told) as server:
        person = terminal(server)
        person.type("Look\n")
        person.until("→ look()")
        person.type("In one word\n")
        person.until("(heard: In one word)")
        person.until("Tree.")
        person.until("> ")
        person.type("\x04")
        assert person.ended() == 0
        assert said(server.requests[-1])[-2:] == [("tool", "a tree"), ("user", "In one word")]


def test_ctrl_c_ends_the_turn_and_twice_leaves(terminal: Open) -> None:
    slow = sse(piece({"role": "assistant", "content": "Once upon a "}), HANG, done=False)
    with ScriptedServer([slow, text("Short."), slow]) as server:
        person = terminal(server)
        person.type("Tell me a story\n")
        person.until("Once upon a ")
        person.type("\x03")
        person.until("(cancelled: ")
        person.until("> ")
        person.type("Shorter\n")
        person.until("Short.")
        person.until("> ")
        assert [role for role, _ in said(server.requests[1])] == ["user", "assistant", "user"]
        person.type("\x03")  # nothing is on: it asks once more, and typing takes that back
        person.until("Ctrl-C once more")
        person.type("Again\n")
        person.until("Once upon a ")
        person.type("\x03")
        person.until("(cancelled: ")
        person.until("> ")
        person.type("\x03")
        assert person.ended() == 130
    assert "Traceback" not in person.shown


def test_commands(terminal: Open) -> None:
    with ScriptedServer([text("It is a folder."), text("Yes.")]) as server:
        person = terminal(server)
        person.type("/tools\n")
        person.until("look: Look around")
        person.type("/nonsense\n")
        person.until("there is no command /nonsense; /tools lists")
        person.type("/etc is what?\n")  # a sentence is no command
        person.until("It is a folder.")
        person.type("//quit\n")
        person.until("Yes.")
        person.type("/exit\n")
        assert person.ended() == 0
        assert [said(request)[-1][1] for request in server.requests] == ["/etc is what?", "/quit"]


def test_quit_while_it_works_ends_the_turn_and_leaves(terminal: Open) -> None:
    with ScriptedServer(looks_until_told) as server:
        person = terminal(server)
        person.type("Look\n")
        person.until("→ look()")
        person.type("/quit\n")
        assert person.ended() == 0


def test_lines_pasted_together_are_one_message(terminal: Open) -> None:
    with ScriptedServer([text("Two lines.")]) as server:
        person = terminal(server)
        person.type("one\ntwo\n")
        person.until("Two lines.")
        person.type("\x04")
        assert person.ended() == 0
        assert said(server.requests[0]) == [("user", "one\ntwo")]


def test_a_turn_that_fails_does_not_end_the_conversation(terminal: Open) -> None:
    with ScriptedServer([error(400, "out of order"), text("Here.")]) as server:
        person = terminal(server)
        person.type("Hi\n")
        person.until("out of order")
        person.type("Again\n")
        person.until("Here.")
        person.type("\x04")
        assert person.ended() == 0


def piped(folder: Path, url: str, lines: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "daneel", "chat", "h.py", "--server", url]
    return subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, cwd=folder)


def test_a_pipe_asks_line_by_line_in_plain_text(folder: Path) -> None:
    with ScriptedServer([LOOK, text("A tree."), text("An oak.")]) as server:
        result = piped(folder, server.url, "What is there?\n\nWhich kind?")
        assert [said(request)[-1][1] for request in server.requests] == ["What is there?", "a tree", "Which kind?"]
    assert result.returncode == 0
    assert result.stdout == "→ look()\n← a tree\nA tree.\nAn oak.\n"
    assert result.stderr == ""


def test_a_pipe_says_by_its_exit_code_that_a_question_got_no_answer(folder: Path) -> None:
    with ScriptedServer([error(400, "out of order"), text("Here.")]) as server:
        result = piped(folder, server.url, "One\nTwo\n")
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "Here."
    assert "out of order" in result.stdout
    with ScriptedServer([]) as server:
        assert piped(folder, server.url, "").returncode == 0
