"""A run with an inbox: what is said while it works is heard at the next turn, and after an answer it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.scripted_server import calls, error, text
from tests.support.stage import PROMPT, Stage

from daneel import Harness, tool
from daneel.harness.stop import Stop

said_meanwhile: list[str] = []
interrupting: list[bool] = []


@tool
def look() -> str:
    """Look around"""
    if interrupting:
        raise KeyboardInterrupt
    said_meanwhile.append("And be quick.")
    return "a tree"


@tool
def listen() -> str:
    """Listen"""
    return "a bird"


HARNESS = Harness(tools=[look, listen], max_turns=3)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture(autouse=True)
def _nothing_said() -> None:
    said_meanwhile.clear()
    interrupting.clear()


class Script:
    """An inbox that is told beforehand what to say at each stop."""

    def __init__(self, *nexts: Any) -> None:
        self.nexts = list(nexts)
        self.stops: list[tuple[str, str | None]] = []

    def take(self) -> list[str]:
        taken = list(said_meanwhile)
        said_meanwhile.clear()
        return taken

    def wait(self, stop: Stop) -> list[str]:
        self.stops.append((stop.reason, stop.answer))
        interrupting.clear()
        following = self.nexts.pop(0) if self.nexts else []
        if isinstance(following, BaseException):
            raise following
        return following


def roles(request: dict[str, Any]) -> list[str]:
    return [message["role"] for message in request["messages"]]


@pytest.mark.parametrize("owned_by", ["daneel", "someone"])
def test_words_said_while_it_works_are_heard_at_the_next_turn(stage: Stage, owned_by: str) -> None:
    inbox = Script()
    script = [calls(("look", {})), text("A tree, quickly.")]
    run, (first, second) = stage.play(script, HARNESS, owned_by=owned_by, inbox=inbox)
    assert roles(first) == ["user"]
    assert roles(second) == ["user", "assistant", "tool", "user"]
    assert second["messages"][-1] == {"role": "user", "content": "And be quick."}  # no notice: a question of the user's
    assert [event.kind for event in run.events] == ["heard", "paused"]
    assert inbox.stops == [("answered", "A tree, quickly.")]
    assert (run.stop_reason, run.answer) == ("answered", "A tree, quickly.")


def test_an_answer_is_not_the_end_and_limits_begin_anew(stage: Stage) -> None:
    inbox = Script(["And?"], ["And then?"])
    one_question = [calls(("listen", {})), text("A bird.")]
    run, requests = stage.play(one_question * 3, HARNESS.with_changes(max_turns=2), inbox=inbox)
    assert (run.stop_reason, run.turns, len(run.calls)) == ("answered", 6, 3)
    said = [message["content"] for message in run.messages if message["role"] == "user" and "name" not in message]
    assert said == [PROMPT, "And?", "And then?"]
    assert roles(requests[2])[-2:] == ["assistant", "user"]
    assert [reason for reason, _ in inbox.stops] == ["answered"] * 3


def test_a_limit_ends_the_question_and_not_the_conversation(stage: Stage) -> None:
    inbox = Script(["Go on."])
    run, _ = stage.play([calls(("listen", {})), text("Done.")], HARNESS.with_changes(max_turns=1), inbox=inbox)
    assert [reason for reason, _ in inbox.stops] == ["turn_limit", "answered"]
    assert (run.stop_reason, run.answer) == ("answered", "Done.")
    inbox = Script(["Go on."])
    run, _ = stage.play([calls(("listen", {})), calls(("listen", {}))], HARNESS.with_changes(max_turns=1), inbox=inbox)
    assert [reason for reason, _ in inbox.stops] == ["turn_limit", "turn_limit"]
    assert run.stop_reason == "turn_limit"


@pytest.mark.parametrize("owned_by", ["daneel", "someone"])
def test_an_interrupted_call_gets_a_result_and_the_turn_a_reply(stage: Stage, owned_by: str) -> None:
    interrupting.append(True)
    inbox = Script(["Never mind. Listen."])
    script = [calls(("listen", {}), ("look", {})), text("All right.")]
    run, requests = stage.play(script, HARNESS, owned_by=owned_by, inbox=inbox)
    assert inbox.stops[0] == ("cancelled", None)
    assert (run.stop_reason, run.answer) == ("answered", "All right.")
    assert roles(requests[1]) == ["user", "assistant", "tool", "tool", "assistant", "user"]
    results = [message["content"] for message in requests[1]["messages"] if message["role"] == "tool"]
    assert results == ["a bird", HARNESS.recovery.interrupted_call]
    ids = [call["id"] for call in requests[1]["messages"][1]["tool_calls"]]
    assert [message["tool_call_id"] for message in requests[1]["messages"][2:4]] == ids
    assert requests[1]["messages"][4]["content"] == HARNESS.recovery.interrupted_reply
    assert requests[1]["messages"][5]["content"] == "Never mind. Listen."


def test_a_server_that_fails_once_is_asked_again(stage: Stage) -> None:
    inbox = Script(["Again, please."])
    run, requests = stage.play([error(400, "out of order"), text("Here I am.")], HARNESS, inbox=inbox)
    assert inbox.stops[0][0] == "invalid"
    assert run.answer == "Here I am."
    assert roles(requests[1]) == ["user", "assistant", "user"]


def test_ctrl_c_while_nothing_is_asked_ends_it(stage: Stage) -> None:
    run, _ = stage.play([text("Hello.")], HARNESS, inbox=Script(KeyboardInterrupt()))
    assert (run.stop_reason, run.messages[-1]["content"]) == ("cancelled", "Hello.")


def test_nothing_but_blanks_is_nothing_said(stage: Stage) -> None:
    inbox = Script([" ", "\n"], ["Now."])
    run, requests = stage.play([text("One."), text("Two.")], HARNESS, inbox=inbox)
    assert run.answer == "Two."
    assert requests[1]["messages"][-1]["content"] == "Now."
