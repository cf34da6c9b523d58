"""The loop against a scripted server: how calls are made, and how each run ends."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.scripted_server import HANG, Reply, calls, error, raw, text
from tests.support.stage import PROMPT, Stage

from daneel import Harness, tool
from daneel.harness.policy import Recovery
from daneel.harness.run_record import Event, Run


@tool
def cur_time() -> str:
    """Get current time"""
    return "12:00:00"


@tool
def cur_date() -> str:
    """Get current date"""
    return "2026-10-14"


@tool
def double(n: int) -> int:
    """Double a number"""
    return 2 * n


@tool
def broken() -> str:
    """Always fails"""
    raise ValueError("no such thing")


CLOCK = Harness(tools=[cur_time, cur_date], system="Be brief.")
DOUBLER = Harness(tools=[double, broken])
TIME = calls(("cur_time", {}))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def kinds(result: Run) -> list[str]:
    return [event.kind for event in result.events]


def doubles(count: int) -> list[Reply]:
    return [calls(("double", {"n": n})) for n in range(count)]


@pytest.mark.parametrize("stream", [True, False])
def test_calls_are_made_and_results_go_back_as_tool_messages(stage: Stage, stream: bool) -> None:
    script = [calls(("cur_time", {}), ("cur_date", {})), text("12:00 on 2026-10-14")]
    result, requests = stage.play(script, CLOCK, stream=stream)
    assert (result.stop_reason, result.answer, result.turns) == ("answered", "12:00 on 2026-10-14", 2)
    assert [(call.name, call.arguments, call.result, call.error) for call in result.calls] == [
        ("cur_time", {}, "12:00:00", None),
        ("cur_date", {}, "2026-10-14", None),
    ]
    first, second = requests
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert [entry["function"]["name"] for entry in first["tools"]] == ["cur_time", "cur_date"]
    assistant, *results = second["messages"][2:]
    assert [call["id"] for call in assistant["tool_calls"]] == [message["tool_call_id"] for message in results]
    assert [message["content"] for message in results] == ["12:00:00", "2026-10-14"]
    assert result.messages[-1]["content"] == "12:00 on 2026-10-14"
    assert result.events == []
    assert result.usage.prompt_tokens > 0
    assert result.usage.cached_tokens > 0


def test_what_goes_over_the_wire(stage: Stage) -> None:
    harness = CLOCK.with_changes(
        temperature=0.5, max_tokens=99, sampling={"top_p": 0.9}, first_tool_choice="cur_time", tool_result_style="native"
    )
    _, requests = stage.play([TIME, text("12:00")], harness, seed=7)
    first, second = requests
    wanted = {"temperature": 0.5, "max_tokens": 99, "top_p": 0.9, "seed": 7, "tool_result_style": "native"}
    assert {name: first[name] for name in wanted} == wanted
    assert first["on_failed_tool_call"] == "report"
    assert first["tool_choice"] == {"type": "function", "function": {"name": "cur_time"}}
    assert "tool_choice" not in second


def test_a_foreign_server_gets_no_field_that_only_daneel_knows(stage: Stage) -> None:
    harness = CLOCK.with_changes(sampling={"include": ["raw_text"]})
    result, requests = stage.play([TIME, text("12:00")], harness, owned_by="someone")
    assert not {"on_failed_tool_call", "tool_result_style", "include"} & set(requests[0])
    assert kinds(result) == ["warning"]  # said once, not once per turn


def test_thoughts_go_back_under_the_servers_own_name(stage: Stage) -> None:
    thinking = Reply(message={**TIME.message, "reasoning_content": "Look at the clock."}, finish_reason="tool_calls")
    _, requests = stage.play([thinking, text("12:00")], CLOCK, owned_by="someone")
    assert requests[1]["messages"][2]["reasoning_content"] == "Look at the clock."


def test_a_plain_style_on_a_foreign_server_sends_no_tool_messages(stage: Stage) -> None:
    harness = CLOCK.with_changes(tool_result_style="plain")
    _, requests = stage.play([TIME, text("12:00")], harness, owned_by="someone")
    last = requests[1]["messages"][-1]
    assert last["role"] == "user"
    assert "cur_time: 12:00:00" in last["content"]
    assert PROMPT in last["content"]


def test_a_tool_that_raises_is_shown_to_the_model(stage: Stage) -> None:
    result, requests = stage.play([calls(("broken", {})), text("It failed.")], DOUBLER)
    assert result.stop_reason == "answered"
    assert requests[1]["messages"][-1]["content"] == "Error: ValueError: no such thing"
    assert result.calls[0].error == "ValueError: no such thing"


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Wild(BaseException):
    pass


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (SystemExit(7), "SystemExit: 7"),
        (Wild("x"), "Wild: x"),
        (asyncio.CancelledError(), "CancelledError"),
        (Wordless(), "Wordless"),
        (ValueError("odd \ud800"), "ValueError: odd ?"),
    ],
)
def test_whatever_a_tool_raises_the_run_goes_on(stage: Stage, raised: BaseException, said: str, parallel: bool) -> None:
    @tool(parallel=parallel)
    def bad(n: int) -> None:
        """Bad."""
        raise raised

    result, requests = stage.play([calls(("bad", {"n": 1}), ("bad", {"n": 2})), text("It failed.")], Harness(tools=[bad]))
    assert result.stop_reason == "answered"
    assert [call.error for call in result.calls] == [said, said]
    assert requests[1]["messages"][-1]["content"] == f"Error: {said}"


def test_calls_run_at_the_same_time_only_when_all_are_declared_safe(stage: Stage) -> None:
    together = threading.Barrier(2, timeout=30)

    @tool(parallel=True)
    def meet(n: int) -> int:
        """Wait for the other call."""
        together.wait()
        return n

    result, _ = stage.play([calls(("meet", {"n": 1}), ("meet", {"n": 2})), text("done")], Harness(tools=[meet]))
    assert [call.result for call in result.calls] == ["1", "2"]

    order: list[str] = []

    @tool(parallel=True)
    def first() -> None:
        """First."""
        order.append("first in " + threading.current_thread().name)

    @tool
    def second() -> None:
        """Second."""
        order.append("second in " + threading.current_thread().name)

    stage.play([calls(("second", {}), ("first", {})), text("done")], Harness(tools=[first, second]))
    name = threading.current_thread().name
    assert order == [f"second in {name}", f"first in {name}"]


def test_an_id_that_comes_twice_is_replaced(stage: Stage) -> None:
    _, requests = stage.play([calls(("double", {"n": 1})), calls(("double", {"n": 2})), text("4")], DOUBLER)
    ids = [message["tool_call_id"] for message in requests[2]["messages"] if message["role"] == "tool"]
    assert len(set(ids)) == 2
    assert ids == [message["tool_calls"][0]["id"] for message in requests[2]["messages"] if message.get("tool_calls")]


# --- how runs end


def test_turn_limit_and_the_last_turn_is_told(stage: Stage) -> None:
    result, requests = stage.play(doubles(5), DOUBLER.with_changes(max_turns=3))
    assert (result.stop_reason, result.answer, result.turns) == ("turn_limit", None, 3)
    assert [call.result for call in result.calls] == ["0", "2", "4"]
    assert "last turn" not in str(requests[1])
    assert requests[2]["messages"][-1] == {"role": "user", "content": Recovery().last_turn, "name": "harness"}


def test_an_answer_on_the_last_turn_counts_even_if_it_announces(stage: Stage) -> None:
    result, _ = stage.play([TIME, text("I will call cur_date.")], CLOCK.with_changes(max_turns=2))
    assert (result.stop_reason, result.answer) == ("answered", "I will call cur_date.")


def test_no_turn_limit(stage: Stage) -> None:
    result, requests = stage.play([*doubles(20), text("done")], DOUBLER.with_changes(max_turns=None))
    assert (result.stop_reason, result.turns) == ("answered", 21)
    assert "last turn" not in str(requests[-1])


def test_token_limit(stage: Stage) -> None:
    result, _ = stage.play(doubles(5), DOUBLER.with_changes(max_run_tokens=1))
    assert (result.stop_reason, result.turns) == ("token_limit", 1)


def test_the_model_is_told_once_when_tokens_run_out(stage: Stage) -> None:
    usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
    script = [reply.but(usage=usage) for reply in [*doubles(9), text("done")]]
    result, requests = stage.play(script, DOUBLER.with_changes(max_run_tokens=500, max_turns=None))
    assert (result.stop_reason, result.turns) == ("token_limit", 5)
    told = [str(request["messages"]).count("last turn") for request in requests]
    assert told == [0, 0, 0, 0, 1]
    result, requests = stage.play(script, DOUBLER.with_changes(max_run_tokens=550, max_turns=None))
    told = [str(request["messages"]).count("last turn") for request in requests]
    assert (result.turns, told) == (6, [0, 0, 0, 0, 1, 1])  # what it was told stays; it is not told again


def test_time_limit_also_while_the_server_is_silent(stage: Stage) -> None:
    result, _ = stage.play([raw(b" ", HANG)], DOUBLER.with_changes(timeout_s=0.2))
    assert (result.stop_reason, result.turns) == ("time_limit", 0)


def test_context_limit(stage: Stage) -> None:
    body = {"error": {"message": "maximum context length is 10 tokens", "code": "context_length_exceeded", "type": "x"}}
    result, _ = stage.play([TIME, error(400, body)], CLOCK)
    assert (result.stop_reason, result.turns) == ("context_limit", 1)
    assert "maximum context length" in str(result.detail)


@pytest.mark.parametrize("reply", [error(400, "bad request"), error(401, "no key"), error(500, "bug"), raw(b'{"choices": [')])
def test_a_failing_server_makes_the_run_invalid(stage: Stage, reply: Reply) -> None:
    result, _ = stage.play([TIME, reply, reply, reply, reply], CLOCK)
    assert (result.stop_reason, result.answer, result.turns) == ("invalid", None, 1)
    assert result.detail


def test_refused_by_a_content_filter(stage: Stage) -> None:
    result, _ = stage.play([text("I can", finish_reason="content_filter")], CLOCK)
    assert result.stop_reason == "refused"


def test_gave_up_after_failures_in_a_row(stage: Stage) -> None:
    empty, wrong = text(""), calls(("double", {"n": "x"}))
    result, _ = stage.play([empty, wrong, *doubles(1), empty, wrong, empty, text("late")], DOUBLER)
    assert (result.stop_reason, result.turns) == ("gave_up", 6)  # the call that was made started the count afresh
    assert "the reply was empty" in str(result.detail)


def test_interrupted_inside_a_tool(stage: Stage) -> None:
    @tool
    def slow() -> None:
        """Interrupted by the person at the terminal."""
        raise KeyboardInterrupt

    result, _ = stage.play([calls(("slow", {}))], Harness(tools=[slow]))
    assert (result.stop_reason, result.turns) == ("cancelled", 1)
    assert [(call.name, call.error) for call in result.calls] == [("slow", "interrupted")]


# --- detectors


def names(request: dict[str, Any]) -> list[str]:
    return [entry["function"]["name"] for entry in request.get("tools", ())]


def test_a_repeated_call_is_noted_then_hidden_then_the_run_stops(stage: Stage) -> None:
    result, requests = stage.play([TIME] * 10, CLOCK)
    assert (result.stop_reason, result.turns) == ("loop", 4)
    seen = [request["messages"][-1]["content"] for request in requests[1:]]
    assert seen[0] == "12:00:00"
    assert "already called cur_time" in seen[1]
    both = ["cur_time", "cur_date"]
    assert [names(request) for request in requests] == [both, both, both, ["cur_date"]]
    assert [call.result for call in result.calls] == ["12:00:00"] * 3 + [None]  # the note is not the tool's result
    grades = [event.data["grade"] for event in result.events if event.kind == "detected"]
    assert grades == ["note", "note", "hide", "stop"]


def test_a_tool_that_was_hidden_comes_back(stage: Stage) -> None:
    result, requests = stage.play([TIME, TIME, TIME, calls(("cur_date", {})), TIME, text("done")], CLOCK)
    assert (result.stop_reason, result.turns) == ("answered", 6)
    assert [len(names(request)) for request in requests] == [2, 2, 2, 1, 2, 2]


def test_the_only_tool_is_not_hidden_but_may_not_be_called(stage: Stage) -> None:
    result, requests = stage.play([TIME] * 10, Harness(tools=[cur_time]))
    assert (result.stop_reason, result.turns) == ("loop", 4)
    assert [request.get("tool_choice") for request in requests] == [None, None, None, "none"]
    assert all(names(request) == ["cur_time"] for request in requests)


def test_two_calls_in_turn_are_a_loop_as_well(stage: Stage) -> None:
    result, _ = stage.play([TIME, calls(("cur_date", {}))] * 9, CLOCK.with_changes(max_turns=None))
    assert result.stop_reason == "loop"
    assert result.turns <= 8


def test_a_changing_result_is_no_loop(stage: Stage) -> None:
    ticks = iter(range(100))

    @tool
    def poll() -> int:
        """Poll."""
        return next(ticks)

    result, _ = stage.play([*[calls(("poll", {}))] * 6, text("done")], Harness(tools=[poll]))
    assert (result.stop_reason, result.events) == ("answered", [])


def test_a_tool_that_may_repeat_is_left_alone(stage: Stage) -> None:
    polling = Harness(tools=[tool(repeats=True, name="poll")(lambda_with_doc)])
    result, _ = stage.play([*[calls(("poll", {}))] * 6, text("done")], polling)
    assert (result.stop_reason, result.events) == ("answered", [])


def lambda_with_doc() -> str:
    """Is it done?"""
    return "not yet"


def test_a_repeat_beside_a_new_call_does_not_stop_the_run(stage: Stage) -> None:
    script = [calls(("double", {"n": 0}), ("double", {"n": n})) for n in range(1, 6)]
    result, _ = stage.play([*script, text("done")], DOUBLER)
    assert result.stop_reason == "answered"


def test_an_announced_call_is_answered_with_tool_choice(stage: Stage) -> None:
    script = [TIME, text("I will call cur_date."), calls(("cur_date", {})), text("12:00 on 2026-10-14")]
    result, requests = stage.play(script, CLOCK)
    assert (result.stop_reason, result.turns) == ("answered", 4)
    assert requests[2]["tool_choice"] == {"type": "function", "function": {"name": "cur_date"}}
    assert "cur_date" in requests[2]["messages"][-1]["content"]
    assert "tool_choice" not in requests[3]


def test_two_announced_calls_require_a_call(stage: Stage) -> None:
    script = [text("Let me use cur_time and cur_date."), calls(("cur_time", {}), ("cur_date", {})), text("done")]
    _, requests = stage.play(script, CLOCK)
    assert requests[1]["tool_choice"] == "required"


def test_a_model_that_only_announces_is_taken_at_its_word_in_the_end(stage: Stage) -> None:
    result, _ = stage.play([text("I will call cur_date.")] * 9, CLOCK)
    assert (result.stop_reason, result.answer, result.turns) == ("answered", "I will call cur_date.", 3)


def test_a_server_that_does_not_take_the_tool_choice_is_asked_without(stage: Stage) -> None:
    script = [text("I will call cur_date."), error(400, "tool_choice: only auto"), calls(("cur_date", {})), text("done")]
    result, requests = stage.play(script, CLOCK, owned_by="someone")
    assert (result.stop_reason, result.turns) == ("answered", 3)
    assert ["tool_choice" in request for request in requests] == [False, True, False, False]
    assert [event.data["changes"] for event in result.events if event.kind == "changes_refused"] == [["tool_choice"]]


def test_what_a_server_does_not_take_is_not_tried_again(stage: Stage) -> None:
    script = [
        text("I will call cur_date."),
        error(422, "no tool_choice"),
        text("I will call cur_date."),
        text("I will call it"),
    ]
    result, requests = stage.play(script, CLOCK, owned_by="someone")
    assert result.stop_reason == "answered"
    assert ["tool_choice" in request for request in requests] == [False, True, False, False]


def test_calls_per_tool_are_limited(stage: Stage) -> None:
    result, requests = stage.play([*doubles(3), text("done")], DOUBLER.with_changes(max_calls={"double": 2}))
    assert [call.result for call in result.calls] == ["0", "2", None]
    assert "2 times in all" in requests[3]["messages"][-1]["content"]


# --- who is told


class Watcher:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.text = ""

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def on_delta(self, delta: Any) -> None:
        self.text += delta.content or ""


def test_an_observer_sees_everything_in_order(stage: Stage) -> None:
    watcher = Watcher()
    stage.play([TIME, text("It is 12:00.")], CLOCK, observer=watcher)
    ordinary = ["message", "message", "peer", "request", "reply", "message", "call", "result", "message"]
    assert [event.kind for event in watcher.events] == [*ordinary, "request", "reply", "message", "stop"]
    assert watcher.text == "It is 12:00."
    assert [event.turn for event in watcher.events if event.kind == "reply"] == [1, 2]


class FullDisk:
    """A transcript whose disk is full from the n-th write on."""

    def __init__(self, writes_left: int) -> None:
        self.writes_left = writes_left

    def _write(self) -> None:
        self.writes_left -= 1
        if self.writes_left < 0:
            raise sqlite3.OperationalError("database or disk is full")

    def begin(self, run_id: str, about: dict[str, Any]) -> FullDisk:
        self._write()
        return self

    def append(self, event: Event, *, durable: bool) -> None:
        self._write()

    def end(self, run: Run) -> None:
        self._write()


@pytest.mark.parametrize("writes_left", range(12))
def test_a_full_disk_is_said_once_and_the_run_goes_on(stage: Stage, writes_left: int) -> None:
    watcher = Watcher()
    result, _ = stage.play([TIME, text("12:00")], CLOCK, transcript=FullDisk(writes_left), observer=watcher)
    assert result.stop_reason == "answered"
    assert kinds(result) == ["transcript_failed"]
    assert [event.kind for event in watcher.events].count("transcript_failed") == 1


def test_the_record_is_plain_json(stage: Stage) -> None:
    result, _ = stage.play([calls(("double", {"n": "4"})), text("8")], DOUBLER, seed=3)
    record = json.loads(json.dumps(result.to_dict()))
    names = {"id", "stop_reason", "answer", "turns", "calls", "usage", "messages", "events"}
    assert names <= set(record)
    assert record["calls"] == [{"name": "double", "arguments": {"n": 4}, "result": "8", "error": None}]
    assert record["events"][0]["kind"] == "repaired"
