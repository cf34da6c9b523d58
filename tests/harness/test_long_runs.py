"""A run of many turns: what it lets go of in memory changes nothing of what it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import calls, text
from tests.support.stage import Stage

from daneel import Harness, tool
from daneel.harness import long_runs
from daneel.harness.context_policy import ContextPolicy
from daneel.harness.run_record import Run
from daneel.harness.tools.gating import only_after
from daneel.harness.transcript import TranscriptStore

TURNS = 120


@tool
def look(n: int) -> str:
    """Look."""
    return f"Shelf {n} holds nothing of use, like all the others before it. " * 4


@tool
def unlock() -> str:
    """Unlock the door."""
    return "unlocked"


@tool(only_after=only_after("unlock"))
def enter() -> str:
    """Go in."""
    return "inside"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_runs, "EVERY_TURNS", 5)
    for name in ("KEPT_CALLS", "KEPT_MESSAGES", "KEPT_EVENTS"):
        monkeypatch.setattr(long_runs, name, 20)


def played(stage: Stage, *, summarise: bool = False, **more: Any) -> tuple[Run, list[dict[str, Any]]]:
    def answer(request: dict[str, Any]) -> Any:
        return text("A summary of what was found on the shelves so far: nothing at all.")

    context = ContextPolicy(context_tokens=3000, reply_tokens=200, summarise=summarise)
    harness = Harness(tools=[look, unlock, enter], max_turns=None, context=context)
    script: list[Any] = [
        calls(("unlock", {})),
        *[calls(("look", {"n": n})) for n in range(TURNS)],
        calls(("enter", {})),
        text("done"),
    ]
    if not summarise:
        return stage.play(script, harness, **more)

    left = list(script)

    def reply(request: dict[str, Any]) -> Any:
        return left.pop(0) if request.get("tools") else answer(request)

    return stage.play([reply] * (2 * len(script)), harness, **more)


@pytest.mark.parametrize("summarise", [False, True])
def test_letting_go_changes_nothing_of_what_is_sent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, summarise: bool
) -> None:
    whole, sent = played(stage, summarise=summarise)
    assert whole.dropped == {"calls": 0, "made_calls": 0, "messages": 0, "events": 0}
    few(monkeypatch)
    with TranscriptStore(tmp_path / "t.db") as store:
        short, sent_again = played(stage, summarise=summarise, transcript=store)
        events = store.events(short.id)
        assert store.find(short.id).outcome["calls"] == TURNS + 2
    assert (whole.stop_reason, short.stop_reason, short.turns) == ("answered", "answered", TURNS + 3)
    assert sent_again == sent
    assert (whole.usage.summaries > 0) == summarise
    assert len(short.calls) < 40 < len(whole.calls)
    assert short.dropped["calls"] + len(short.calls) == len(whole.calls)
    assert short.dropped["messages"] + len(short.messages) == len(whole.messages)
    assert short.dropped["messages"] > TURNS
    assert len(short.messages) < 120
    # the gate still knows what opened it, and the question is still there
    assert [call.name for call in short.calls if call.name != "look"] == ["unlock", "enter"]
    assert short.calls[-1].result == "inside"
    assert next(message["content"] for message in short.messages if message["role"] == "user") == whole.messages[0]["content"]
    assert all("view" not in event.data for event in short.events[:-20])
    # the transcript has all of it
    assert sum(row.event.kind == "message" for row in events) == len(whole.messages)
    assert sum(row.event.kind == "result" for row in events) == TURNS + 2


def test_a_gate_that_sees_all_calls_keeps_them(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)

    @tool(hidden_until=lambda calls: len(calls) >= 100)
    def late() -> str:
        """Late."""
        return "at last"

    script = [*[calls(("look", {"n": n})) for n in range(100)], calls(("late", {})), text("done")]
    result, _ = stage.play(script, Harness(tools=[look, late], max_turns=None))
    assert result.calls[-1].result == "at last"
    assert (len(result.calls), result.dropped["calls"]) == (101, 0)


def test_a_tool_whose_calls_are_forgotten_was_called_all_the_same(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    script = [calls(("unlock", {})), *[calls(("look", {"n": n})) for n in range(60)], text("Then unlock and look.")]
    result, _ = stage.play(script, Harness(tools=[look, unlock], max_turns=None))
    assert (result.stop_reason, result.turns) == ("answered", 62)
    assert "unlock" not in {call.name for call in result.calls}


def test_ids_stay_apart_in_a_long_run(stage: Stage) -> None:
    result, requests = stage.play(
        [*[calls(("look", {"n": n})) for n in range(30)], text("done")], Harness(tools=[look], max_turns=40)
    )
    ids = [message["tool_call_id"] for message in requests[-1]["messages"] if message["role"] == "tool"]
    assert len(ids) == len(set(ids)) == 30
    assert result.stop_reason == "answered"
