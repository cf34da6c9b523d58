"""Gates in the loop: what is declared each turn, what a call that comes too early hears, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.scripted_server import calls, text
from tests.support.stage import Stage

from daneel import Gate, Harness, only_after, tool
from daneel.harness.gatekeeper import Gatekeeper
from daneel.harness.recorder import Recorder
from daneel.harness.run_record import CallRecord, Event, Run

FILES = {"a.txt": "alpha", "b.txt": "beta"}


@tool
def read_file(path: str) -> str:
    """Read a file"""
    return FILES[path]


@tool(only_after=only_after("read_file", same="path"))
def edit_file(path: str) -> str:
    """Edit a file"""
    return f"edited {path}"


READ_A, EDIT_A, EDIT_B = (
    calls((name, {"path": path})) for name, path in (("read_file", "a.txt"), ("edit_file", "a.txt"), ("edit_file", "b.txt"))
)
DONE = text("Done.")


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def harness(mode: Any, **more: Any) -> Harness:
    return Harness(tools=[read_file, edit_file], gate=Gate(mode=mode), **more)


def declared(requests: list[dict[str, Any]]) -> list[list[str]]:
    return [[tool["function"]["name"] for tool in request.get("tools", [])] for request in requests]


def results(run: Run) -> list[str | None]:
    return [call.result for call in run.calls]


def last_content(request: dict[str, Any]) -> str:
    return str(request["messages"][-1]["content"])


def test_a_hidden_tool_is_declared_once_its_gate_is_open(stage: Stage) -> None:
    run, requests = stage.play([READ_A, EDIT_A, DONE], harness("hidden"))
    assert run.stop_reason == "answered"
    assert declared(requests) == [["read_file"], ["read_file", "edit_file"], ["read_file", "edit_file"]]
    assert results(run) == ["alpha", "edited a.txt"]


def test_a_hidden_tool_does_not_exist(stage: Stage) -> None:
    run, requests = stage.play([EDIT_A, DONE], harness("hidden"))
    assert results(run) == [None]
    said = last_content(requests[1])
    assert "there is no tool edit_file" in said
    assert said.endswith("The tools are: read_file.")


def test_a_hidden_tool_written_as_text_is_not_called(stage: Stage) -> None:
    written = text('<tool_call>{"name": "edit_file", "arguments": {"path": "a.txt"}}</tool_call>')
    run, _ = stage.play([written, DONE], harness("hidden"), owned_by="someone")
    assert all(call.result is None for call in run.calls)


def test_a_refused_tool_is_declared_and_says_what_to_do_first(stage: Stage) -> None:
    run, requests = stage.play([EDIT_B, READ_A, EDIT_B, EDIT_A, DONE], harness("refused"))
    assert declared(requests) == [["read_file", "edit_file"]] * 5
    hint = 'Error: edit_file cannot be called now. First call read_file with path "b.txt", then edit_file.'
    assert last_content(requests[1]) == hint
    assert last_content(requests[3]) == hint, "another file was read"
    assert results(run) == [None, "alpha", None, "edited a.txt"]
    assert [event.data["problem"] for event in run.events if event.kind == "told"] == ["gated", "gated"]


def test_the_gates_own_hint_wins(stage: Stage) -> None:
    gated = edit_file.with_changes(requires="read_file", gate=Gate(mode="refused", hint="Look before you leap."))
    _, requests = stage.play([EDIT_A, DONE], Harness(tools=[read_file, gated]))
    assert last_content(requests[1]) == "Error: edit_file cannot be called now. Look before you leap."


def test_a_masked_tool_stays_declared_and_the_model_hears_when_it_opens(stage: Stage) -> None:
    run, requests = stage.play([READ_A, EDIT_A, DONE], harness("masked"))
    assert declared(requests) == [["read_file", "edit_file"]] * 3
    assert requests[0]["tools"] == requests[1]["tools"], "the prefix must not change"
    assert last_content(requests[1]) == "The tools that you may call now: read_file, edit_file."
    assert last_content(requests[2]) == "edited a.txt", "nothing has changed since"
    assert results(run) == ["alpha", "edited a.txt"]


def test_an_earlier_call_of_the_same_reply_opens_a_gate(stage: Stage) -> None:
    both = calls(("read_file", {"path": "a.txt"}), ("edit_file", {"path": "a.txt"}))
    run, _ = stage.play([both, DONE], harness("refused"))
    assert results(run) == ["alpha", "edited a.txt"]


def test_a_failed_call_of_the_same_reply_does_not(stage: Stage) -> None:
    both = calls(("read_file", {"path": "c.txt"}), ("edit_file", {"path": "c.txt"}))
    run, _ = stage.play([both, DONE], harness("refused"))
    assert run.calls[1].result is None


def test_parallel_tools_with_gates_run_one_after_the_other(stage: Stage) -> None:
    tools = [read_file.with_changes(parallel=True), edit_file.with_changes(parallel=True)]
    both = calls(("read_file", {"path": "a.txt"}), ("edit_file", {"path": "a.txt"}))
    run, _ = stage.play([both, DONE], Harness(tools=tools, gate=Gate(mode="refused")))
    assert results(run) == ["alpha", "edited a.txt"]


def test_max_calls_within_one_reply_and_after_it(stage: Stage) -> None:
    once = read_file.with_changes(max_calls=1)
    twice = calls(("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}))
    run, requests = stage.play([twice, READ_A, DONE], Harness(tools=[once]))
    assert results(run) == ["alpha", None, None]
    assert declared(requests) == [["read_file"], [], []]
    limit = "Error: read_file may be called 1 times in all, and has been. Go on without it."
    assert last_content(requests[1]) == limit
    assert last_content(requests[2]).startswith(limit), "it was there before, so it is not said that there is no such tool"


def test_a_refused_call_does_not_count_as_made(stage: Stage) -> None:
    limited = harness("refused", max_calls={"edit_file": 1})
    run, _ = stage.play([EDIT_A, READ_A, EDIT_A, DONE], limited)
    assert results(run) == [None, "alpha", "edited a.txt"]


def test_what_is_hidden_cannot_be_forced(stage: Stage) -> None:
    _, requests = stage.play([READ_A, EDIT_A, DONE], harness("hidden", tool_choice="edit_file"))
    forced = {"type": "function", "function": {"name": "edit_file"}}
    assert [request.get("tool_choice") for request in requests] == [None, forced, forced]


def test_an_announced_tool_that_is_hidden_is_not_asked_for(stage: Stage) -> None:
    run, _ = stage.play([text("I will call edit_file.")], harness("hidden"))
    assert run.stop_reason == "answered"


def test_a_predicate_that_raises_is_on_record_once(stage: Stage) -> None:
    broken = edit_file.with_changes(hidden_until=lambda calls: 1 / 0)
    run, requests = stage.play([READ_A, READ_A, DONE], Harness(tools=[read_file, broken]))
    assert declared(requests) == [["read_file"]] * 3
    failed = [event.data for event in run.events if event.kind == "gate_failed"]
    assert failed == [{"name": "edit_file", "error": "ZeroDivisionError: division by zero"}]


def test_the_transcript_says_what_was_visible(stage: Stage) -> None:
    seen: list[Event] = []

    class Watcher:
        def on_event(self, event: Event) -> None:
            seen.append(event)

        def on_delta(self, delta: Any) -> None:
            pass

    stage.play([READ_A, EDIT_A, DONE], harness("refused"), observer=Watcher())
    requests = [event.data for event in seen if event.kind == "request"]
    assert [data["tools"] for data in requests] == [["read_file", "edit_file"]] * 3
    assert [data.get("refused_tools") for data in requests] == [["edit_file"], None, None]


def test_a_tool_that_a_detector_hides_is_not_said_to_be_unknown(stage: Stage) -> None:
    again = Harness(tools=[read_file, edit_file.with_changes(gate=None)], max_turns=None)
    run, requests = stage.play([READ_A] * 12, again)
    assert run.stop_reason == "loop"
    assert any("read_file" not in names for names in declared(requests)), "it was hidden before the run was ended"
    assert not any("there is no tool" in str(request["messages"]) for request in requests)


def test_a_tool_can_be_hidden_for_a_turn() -> None:
    made: list[CallRecord] = []
    gates = Gatekeeper(Harness(tools=[read_file]), made, Recorder(None, None))
    gates.hide("read_file", turns=2)
    shown = []
    for _ in range(3):
        gates.start_turn()
        shown.append(gates.open_names())
    assert shown == [[], [], ["read_file"]]
