"""Harness and goal definitions: what is refused, and what the hashes cover."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from daneel import Harness, Tool, goal, tool
from daneel.errors import UserError
from daneel.harness.policy import Recovery
from daneel.harness.run_record import Run, RunUsage


def make(returns: str, description: str = "A tool", name: str = "a_tool") -> Tool:
    def one() -> str:
        return "one"

    def two() -> str:
        return "two"

    return tool(name=name, description=description)(one if returns == "one" else two)


def plain_function() -> None:
    """Not decorated."""


async def async_check(_run: Run) -> bool:
    return False


def yielding_check(_run: Run) -> Iterator[bool]:
    yield False


@pytest.mark.parametrize(
    ("make_harness", "said"),
    [
        (lambda: Harness(tools=[make("one"), make("two")]), "two tools are called a_tool"),
        (lambda: Harness(tools=[plain_function]), "'plain_function' is not a tool; put @tool above"),  # type: ignore[list-item]
        (lambda: Harness(max_turns=0), "max_turns must be"),
        (lambda: Harness(max_tokens=-1), "max_tokens must be"),
        (lambda: Harness(timeout_s=0), "timeout_s must be"),
        (lambda: Harness(temperature=-0.1), "temperature must be"),
        (lambda: Harness(tool_choice="required"), "'required'"),
        (lambda: Harness(first_tool_choice="no_such"), "first_tool_choice: 'no_such'"),
        (lambda: Harness(tool_result_style="loud"), "'loud'"),  # type: ignore[arg-type]
        (lambda: Harness(max_calls={"no_such": 1}), "max_calls: there is no tool no_such"),
        (lambda: Harness(sampling={"messages": []}), "sampling: messages"),
        (lambda: Harness(name="h", tools=[make("one")] * 2), "harness h: "),
        (lambda: Harness(recovery=Recovery(repeat_stop_at=0)), "repeat_stop_at"),
        (lambda: Harness(recovery=Recovery(empty_reply="{nothing}")), "{nothing}"),
        (lambda: Harness(recovery=Recovery(empty_reply="{")), "empty_reply"),
        (lambda: Harness(temperature=math.nan), "temperature must be"),
        (lambda: Harness(temperature=math.inf), "temperature must be"),
        (lambda: Harness(timeout_s=math.nan), "timeout_s must be"),
        (lambda: Harness(sampling={"top_p": math.nan}), "sampling cannot be sent as JSON"),
        (lambda: Harness(sampling={"stop": {"a", "b"}}), "sampling cannot be sent as JSON"),
        (lambda: goal(prompt=" "), "prompt is empty"),
        (lambda: goal(prompt="p")(async_check), "goal async_check: the check must be a plain function"),  # type: ignore[arg-type]
        (lambda: goal(prompt="p")(yielding_check), "goal yielding_check: the check must be a plain function"),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_fit_is_refused(make_harness: Callable[[], Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        make_harness()
    assert said in str(caught.value)


def test_a_check_that_gives_what_must_be_awaited_has_not_answered() -> None:
    wrapped = goal(prompt="p")(lambda run: yielding_check(run))  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="generator, which is neither true nor false"):
        wrapped(Run("id", "answered", "yes", 1, [], RunUsage(), [], [], 0.0))


def test_the_fingerprint_covers_all_that_matters_and_not_the_name() -> None:
    base = Harness(tools=[make("one")])
    assert base.fingerprint() == Harness(tools=[make("one")], name="other").fingerprint()
    others = [
        Harness(tools=[make("two")]),  # source
        Harness(tools=[make("one", description="Another")]),
        Harness(tools=[make("one", name="b_tool")]),
        Harness(tools=[]),
        base.with_changes(system="Be brief."),
        base.with_changes(max_turns=9),
        base.with_changes(temperature=0.7),
        base.with_changes(sampling={"top_p": 0.9}),
        base.with_changes(tool_choice="required"),
        base.with_changes(tool_result_style="plain"),
        base.with_changes(recovery=Recovery(empty_reply="Go on.")),
        base.with_changes(timeout_s=9.0),
        base.with_changes(max_calls={"a_tool": 1}),
    ]
    assert len({harness.fingerprint() for harness in [base, *others]}) == len(others) + 1


def test_a_goal() -> None:
    @goal(prompt="Say yes.")
    def says_yes(trial: Run) -> bool:
        return trial.answer == "yes"

    @goal(prompt="Say yes.", name="other")
    def says_no(trial: Run) -> bool:
        return trial.answer == "no"

    run = Run("r", "answered", "yes", 1, [], RunUsage(), [], [])
    assert (says_yes.name, says_yes.prompt, says_yes(run)) == ("says_yes", "Say yes.", True)
    assert (says_no.name, says_no(run)) == ("other", False)
    assert says_yes.fingerprint() != says_no.fingerprint()
