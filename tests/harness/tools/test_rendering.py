"""What the model reads of a result: a sentence where the tool has one, and never more than its bound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel import Harness, Recovery, Tool, ToolFailure, tool
from daneel.errors import UserError
from daneel.harness.tools.rendering import MIN_RESULT_CHARS, bounded, told
from daneel.harness.tools.running import Done, ForeignFailure, call

POLICY = Recovery()


def make(**more: Any) -> Tool:
    @tool(description="Size of a file", **more)
    def size(path: str, unit: str = "bytes") -> Any:
        return {"n": 3, "of": path}

    return size


@pytest.mark.parametrize(
    ("render", "text"),
    [
        (None, '{"n":3,"of":"a"}'),
        (lambda result: f"{result['n']} bytes", "3 bytes"),
        (lambda result, arguments: f"{arguments['path']}: {result['n']}", "a: 3"),
        ("{path} has {result[n]} {{bytes}}.", "a has 3 {bytes}."),
        (str, "{'n': 3, 'of': 'a'}"),
        (lambda *given: len(given), "2"),
    ],
)
def test_render(render: Any, text: str) -> None:
    made = make(render=render)
    said = told(made, call(made, {"path": "a"}), {"path": "a"}, POLICY)
    assert said.text == text
    assert said.plain == '{"n":3,"of":"a"}'
    assert said.error is None


@pytest.mark.parametrize(
    ("render", "complaint"),
    [("{size}", r"\{size\}, which is neither"), ("{", "render"), (3, "render must be"), (lambda: "", "must take")],
)
def test_a_render_that_cannot_be(render: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        make(render=render)


def test_an_argument_that_was_left_out_is_no_error() -> None:
    made = make(render="{path} in {unit}: {result[n]}")
    assert told(made, call(made, {"path": "a"}), {"path": "a"}, POLICY).text == "a in None: 3"


def test_a_render_that_raises_costs_the_sentence_only() -> None:
    made = make(render=lambda result: result["nothing"])
    said = told(made, call(made, {"path": "a"}), {"path": "a"}, POLICY)
    assert said.text == said.plain
    assert said.error is None
    assert said.notes == ("render raised KeyError: 'nothing'",)


def test_a_result_that_cannot_be_told_is_an_error() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no")

    said = told(make(), Done(Odd()), {}, POLICY)
    assert said.error is not None
    assert said.text.startswith("Error: the result cannot be told")


def test_a_timeout_is_told_with_its_seconds() -> None:
    said = told(make(), Done(error="not done", timeout_s=2.0), {}, POLICY)
    assert said.text.startswith("Error: size was not done within 2 s")
    assert said.own_words


def test_whose_words_a_failure_is_told_in() -> None:
    def fails(error: Exception) -> Done:
        def raises() -> None:
            raise error

        return call(tool(description="Fails")(raises), {})

    assert fails(ValueError("x")) == Done(error="ValueError: x")
    assert fails(ToolFailure("Give a path.")) == Done(error="Give a path.", own_words=True)
    assert fails(ForeignFailure("their words")) == Done(error="their words")


@given(st.text(max_size=2000), st.integers(MIN_RESULT_CHARS, 1500))
def test_a_result_keeps_its_bound_and_its_beginning(text: str, limit: int) -> None:
    hint = "Ask for more."
    kept = bounded(make(max_result_chars=limit, rest_hint=hint), text, POLICY)
    assert len(kept) <= max(limit, 120)
    if len(text) <= limit:
        assert kept == text
    else:
        shown, _, note = kept.rpartition("\n")
        assert text.startswith(shown)
        assert note == POLICY.cut_result.format(shown=len(shown), total=len(text), rest=hint)


def test_a_cut_is_made_at_a_line_s_end() -> None:
    kept = bounded(make(max_result_chars=500), "a line\n" * 1000, POLICY)
    lines = kept.splitlines()
    assert set(lines[:-1]) == {"a line"}
    assert lines[-1].startswith("[Cut: these are ")
    assert lines[-1].endswith("of 7000 characters. To see the rest, call size again and ask for less at a time.]")


def test_a_tool_without_arguments_has_no_rest_to_ask_for() -> None:
    nothing = tool(name="nothing", description="Nothing", max_result_chars=200)(lambda: "x" * 500)
    assert bounded(nothing, "x" * 500, POLICY).endswith("The rest cannot be shown.]")


def test_no_bound() -> None:
    assert bounded(make(max_result_chars=None), "x" * 100_000, POLICY) == "x" * 100_000


@pytest.mark.parametrize("limits", [{"max_result_chars": 5}, {"timeout_s": 0}, {"timeout_s": "5"}, {"effects": ["reads"]}])
def test_limits_that_make_no_sense(limits: Any) -> None:
    with pytest.raises(UserError, match="tool size"):
        make(**limits)


def test_harnesses_that_tell_results_otherwise_have_another_hash() -> None:
    def look(word: str) -> dict[str, str]:
        """Look up a word"""
        return {"word": word}

    renders: list[Any] = [
        None,
        "{result}",
        "It is {result}.",
        lambda result: "one",
        lambda result: "two",
        lambda result, given: "three",
    ]
    prints = [Harness(tools=[tool(render=render)(look)]).fingerprint() for render in renders]
    assert len(set(prints)) == len(prints)
    again = [Harness(tools=[tool(look).with_changes(render=render)]).fingerprint() for render in renders[1:3]]
    assert again == prints[1:3]
