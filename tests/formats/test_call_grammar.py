"""Decoding grammars: they admit what the family's parser reads back as calls, and nothing else."""

from __future__ import annotations

import itertools
import json
from typing import Any

import llguidance
import pytest
from tests.formats.joined import parse

from daneel.formats.base import Tool
from daneel.formats.call_grammar import MAX_FORCED_CALLS
from daneel.formats.registry import get
from daneel.formats.validate import ToolSet

TOOLS = [
    Tool("now"),
    Tool(
        'say "it"',
        parameters={"type": "object", "properties": {"x": {"type": "int"}}, "required": ["x"], "additionalProperties": False},
    ),
]
NOW: tuple[str, dict[str, Any]] = ("now", {})
SAY: tuple[str, dict[str, Any]] = ('say "it"', {"x": 1})


class _Bytes:
    eos_token_id = 256
    bos_token_id = None
    tokens = [bytes([value]) for value in range(256)] + [b"<end>"]
    special_token_ids = [256]

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


TOKENIZER = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Bytes()), slices=[])


def _accepts(grammar: str, text: str) -> bool:
    assert not llguidance.LLMatcher.validate_grammar(grammar, TOKENIZER)
    matcher = llguidance.LLMatcher(TOKENIZER, grammar)
    ids = list(text.encode())
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


def _written(name: str, calls: list[tuple[str, dict[str, Any]]]) -> str:
    return get(name).write_text_calls([(call, json.dumps(arguments)) for call, arguments in calls])


@pytest.mark.parametrize("name", ["hermes", "generic"])
@pytest.mark.parametrize(
    ("choice", "parallel", "calls", "admitted"),
    [
        ("required", True, [NOW], True),
        ("required", True, [NOW, SAY, NOW], True),
        ("required", False, [SAY], True),
        ("required", False, [NOW, SAY], False),
        ('say "it"', True, [SAY, SAY], True),
        ("now", True, [SAY], False),
        ("required", True, [("other", {})], False),
        ("required", True, [('say "it"', {"x": "1"})], False),
        ("required", True, [('say "it"', {"y": 1})], False),
    ],
)
def test_admitted_calls(
    name: str, choice: str, parallel: bool, calls: list[tuple[str, dict[str, Any]]], admitted: bool
) -> None:
    grammar = get(name).call_grammar(TOOLS, choice=choice, parallel=parallel, marker=json.dumps)
    text = _written(name, calls)
    assert _accepts(grammar, text) is admitted
    assert not _accepts(grammar, "Sure! " + text)
    got = parse(get(name), text, tools=ToolSet(TOOLS))
    if admitted:
        assert [(call.name, json.loads(call.arguments)) for call in got.calls] == calls
        assert {call.repair for call in got.calls} == {None}


@pytest.mark.parametrize("name", ["hermes", "generic"])
def test_tools_that_take_nothing_are_called_at_most_once_in_a_forced_turn(name: str) -> None:
    tools = [Tool(letter) for letter in "abc"]
    grammar = get(name).call_grammar(tools, choice="required", parallel=True, marker=json.dumps)
    for count in range(1, 4):
        for order in itertools.product("abc", repeat=count):
            text = _written(name, [(letter, {}) for letter in order])
            assert _accepts(grammar, text) is (len(set(order)) == count)


def test_a_forced_turn_is_bounded() -> None:
    grammar = get("generic").call_grammar(TOOLS, choice="required", parallel=True, marker=json.dumps)
    assert _accepts(grammar, _written("generic", [SAY] * MAX_FORCED_CALLS))
    assert not _accepts(grammar, _written("generic", [SAY] * (MAX_FORCED_CALLS + 1)))


def test_forced_arguments_are_those_that_were_told() -> None:
    said = Tool("say", parameters={"type": "object", "properties": {"x": {"type": "integer"}}})
    free = Tool("free", parameters={"type": "object"})
    grammar = get("generic").call_grammar([said, free], choice="required", parallel=False, marker=json.dumps)
    assert _accepts(grammar, _written("generic", [("say", {"x": 1})]))
    assert not _accepts(grammar, _written("generic", [("say", {"x": 1, "y": 2})]))
    assert _accepts(grammar, _written("generic", [("free", {"y": 2})]))


def test_an_open_thought_is_closed_first() -> None:
    grammar = get("hermes").call_grammar(TOOLS, choice="now", parallel=False, marker=json.dumps, starts_in_reasoning=True)
    call = _written("hermes", [NOW])
    assert _accepts(grammar, "I need\nthe time.</think>" + call)
    assert _accepts(grammar, "\n</think>\n\n" + call)
    assert not _accepts(grammar, "I need the time." + call)


def test_special_tokens_are_referred_to_as_the_engine_says() -> None:
    grammar = get("hermes").call_grammar(
        TOOLS, choice="now", parallel=False, marker=lambda text: f"<[{len(text)}]>", starts_in_reasoning=True
    )
    assert "<[11]>" in grammar
    assert "<[12]>" in grammar
    assert "<[8]>" in grammar
    assert not llguidance.LLMatcher.validate_grammar(grammar, TOKENIZER)


@pytest.mark.parametrize(
    ("name", "choice", "tools", "message"),
    [
        ("gemma4", "required", [Tool("f", parameters={"properties": {"a:b": {}}})], "'a:b' cannot be written"),
        ("hermes", "other", TOOLS, "other"),
        ("hermes", "required", [], "no tools"),
    ],
)
def test_what_cannot_be_constrained_is_said(name: str, choice: str, tools: list[Tool], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get(name).call_grammar(tools, choice=choice, parallel=True, marker=json.dumps)
