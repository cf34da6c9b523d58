"""`submit`: the answer as a call."""

from __future__ import annotations

from tests.support.scripted_server import calls, text
from tests.support.stage import Stage

from daneel import Harness, tool
from daneel.tools import submit


@tool
def cur_time() -> str:
    """Get current time"""
    return "12:00"


HARNESS = Harness(tools=[cur_time, submit()])


def test_it_ends_the_run_with_the_answer_word_for_word() -> None:
    with Stage() as stage:
        run, requests = stage.play([calls(("cur_time", {})), calls(("submit", {"answer": "It is 12:00 <|im_end|>."}))], HARNESS)
    assert (run.stop_reason, run.answer, run.turns) == ("answered", "It is 12:00 <|im_end|>.", 2)
    assert len(requests) == 2
    assert run.messages[-1]["role"] == "tool", "every call has its result, also the last"


def test_calls_beside_it_are_made() -> None:
    with Stage() as stage:
        run, _ = stage.play([calls(("submit", {"answer": "noon"}), ("cur_time", {}))], HARNESS)
    assert run.answer == "noon"
    assert [call.result for call in run.calls] == ["noon", "12:00"]


def test_an_empty_answer_is_none() -> None:
    with Stage() as stage:
        run, _ = stage.play([calls(("submit", {"answer": " "})), text("It is noon.")], HARNESS)
    assert run.answer == "It is noon."
    assert run.calls[0].error == "the answer is empty; write the whole answer"
