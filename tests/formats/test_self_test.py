"""Judging known calls: what a template wrote, read back. Renderings here are written by hand; `server/` tests real ones."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from daneel.formats import registry
from daneel.formats.base import Tool
from daneel.formats.self_test import (
    ANSWER,
    PLAIN,
    QUESTION,
    TOOLS,
    Failure,
    KnownCase,
    SelfTest,
    Turn,
    judge,
    known_cases,
    split,
)
from daneel.formats.validate import ToolSet

HERMES = registry.get("hermes")
CASES = {case.name: case for case in known_cases(HERMES)}
USER = f"<|im_start|>user\n{QUESTION}<|im_end|>\n"
MODEL = "<|im_start|>assistant\n"
END = "<|im_end|>\n"


def written(case: KnownCase) -> str:
    return "\n".join(HERMES.write_call(name, json.dumps(arguments)) for name, arguments in case.calls)


def reason(case: KnownCase, text: str, **options: bool) -> str | None:
    failure = judge(case, HERMES, Turn(USER + MODEL, text), **options)
    return failure.reason if failure else None


def test_the_calls_are_to_the_tools_and_keep_to_their_schemas() -> None:
    tools = ToolSet(TOOLS)
    for case in CASES.values():
        for name, arguments in case.calls:
            assert tools.issues(name, json.dumps(arguments)) == []


@pytest.mark.parametrize("name", registry.FAMILIES)
def test_every_familys_cases_try_its_own_markers(name: str) -> None:
    family = registry.FAMILIES[name]
    [(_, arguments)] = known_cases(family)[-1].calls
    assert all(marker in arguments["text"] for marker in (*family.call.opens[:1], *family.call.closes[:1]))


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_right_passes(name: str) -> None:
    case = CASES[name]
    thought = f"<think>\n{case.reasoning}\n</think>\n\n" if case.reasoning else ""
    assert reason(case, thought + case.content + "\n" + written(case) + END) is None


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        (PLAIN, '"Paris"', '"paris"', '/city is "Paris" and is read as "paris"'),
        (PLAIN, '"city"', '"town"', "/city is lost"),
        (PLAIN, "}}", ', "x": 1}}', "/x is added"),
        (PLAIN, '"Paris"', "Paris", "cannot be read: "),
        (PLAIN, "<tool_call>", "<call>", 'the content "" is read as "<call>"'),
        (PLAIN, '<tool_call>\n{"name"', '{"title"', "0 of 1 calls"),
        (PLAIN, "get_weather", "get_weather2", 'get_weather is read as "get_weather2"'),
        ("two calls", "Oslo", "Rome", '/city is "Oslo"'),
        ("numbers, booleans and null", "true", "1", "/active is true and is read as 1"),
        ("numbers, booleans and null", "null", '"None"', '/note is null and is read as "None"'),
        ("nested objects and arrays", "2.5", "3", "/filters/range/max is 2.5"),
        ("nested objects and arrays", "[true, false]", "[true]", "/flags is [true, false]"),
    ],
)
def test_what_is_written_wrong_is_said(name: str, old: str, new: str, words: str) -> None:
    text = written(CASES[name])
    assert old in text
    assert words in (reason(CASES[name], text.replace(old, new)) or "")


def test_text_that_is_lost_or_a_thought_that_shows() -> None:
    text, thought = CASES["text before a call"], CASES["a thought before a call"]
    assert reason(text, written(text)) == 'the content "Let me look." is read as ""'
    assert reason(text, written(text), whole=False) is None
    assert reason(thought, written(thought)) is None  # templates may leave thoughts out
    assert "the content" in (reason(thought, thought.reasoning + written(thought)) or "")


def test_a_call_that_is_not_there_is_the_templates_fault() -> None:
    failure = judge(CASES["a call without arguments"], HERMES, Turn("", "Hello"))
    assert failure == Failure("a call without arguments", "rendering", "the template does not write the call to ping")


def test_where_the_models_part_begins() -> None:
    case = CASES[PLAIN]
    turn = split(USER + MODEL, USER + MODEL + written(case) + END, USER + MODEL + ANSWER + END, HERMES.markers)
    assert turn is not None
    assert (turn.prompt, turn.text) == (USER + MODEL, written(case))
    # a thought that the prompt opens and the history leaves out: what is common ends before the two markers that begin alike
    turn = split(USER + MODEL + "<think>\n", USER + MODEL + "<tool_call>x", "", HERMES.markers)
    assert turn is not None
    assert (turn.prompt, turn.text) == (USER + MODEL, "<tool_call>x")
    # an empty thought that the history has too is the model's
    turn = split(USER + MODEL + "<think>\n", USER + MODEL + "<think>\n\n</think>\n\nx", "", HERMES.markers)
    assert turn is not None
    assert turn.prompt.endswith("<think>\n")
    assert judge(replace(case, calls=(), content="x"), HERMES, turn) is None
    assert split("no question", USER, "", ()) is None


def test_a_turn_that_a_template_writes_as_two_messages_is_one() -> None:
    case = CASES["text before a call"]
    rendered = USER + MODEL + case.content + "<|im_end|>\n" + MODEL + written(case) + "</s>"
    turn = split(USER + MODEL, rendered, USER + MODEL + ANSWER + "</s>", HERMES.markers)
    assert turn is not None
    assert judge(case, HERMES, turn) is None


def test_what_the_log_says() -> None:
    fine = SelfTest((PLAIN, "unicode"))
    assert fine.works
    assert fine.warning() is None
    assert fine.summary("hermes") == "self-test of the format hermes: 2 of 2 known calls come back"
    lossy = SelfTest((PLAIN,), (Failure("unicode", "reading", "/a is lost"),))
    assert lossy.warning() is None
    assert lossy.summary("x").endswith("1 of 2 known calls come back; not: unicode (/a is lost)")
    many = SelfTest((PLAIN,), tuple(Failure(str(number), "reading", "why") for number in range(9)))
    assert many.summary("x").endswith("3 (why); and 5 more")
    unseen = SelfTest((), (Failure(PLAIN, "rendering", "refused"),))
    assert "will not see its own calls" in (unseen.warning() or "")
    assert "refused" in (unseen.warning() or "")
    unread = SelfTest((), (Failure(PLAIN, "reading", "why"),))
    assert "--format" in (unread.warning() or "")
    assert unread.summary("x").endswith("0 of 1 known calls come back")


def test_tools_need_no_more_than_templates_can_tell() -> None:
    """Union types break some templates' macros: then no call could be tried."""
    assert '"type": [' not in json.dumps([tool.parameters for tool in TOOLS])
    assert all(isinstance(tool, Tool) for tool in TOOLS)
