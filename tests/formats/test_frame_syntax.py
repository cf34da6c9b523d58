"""Families of framed messages: detection, and decoding grammars that go on where the prompt ends."""

from __future__ import annotations

import json
from pathlib import Path

import llguidance
import pytest
from tests.formats.joined import parse

from daneel.formats.base import Tool
from daneel.formats.registry import detect, get
from daneel.formats.validate import ToolSet

TOOLS = [Tool("now"), Tool("f", parameters={"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]})]
OWN = {"openai-gpt-oss-120b.jinja": "gpt-oss", "ollama__glimmer_chat_template.jinja": "glimmer"}


class _Tokens:
    """Every byte, and the markers as special tokens."""

    eos_token_id = 256
    bos_token_id = None
    markers = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|message_model|>", "<|end_message|>",
               "<|content_thinking|>", "<|content_invoke_tool_json|>")  # fmt: skip
    tokens = [bytes([value]) for value in range(256)] + [b"<end>", *(marker.encode() for marker in markers)]
    special_token_ids = list(range(256, 257 + len(markers)))

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


TOKENIZER = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Tokens()), slices=[])


def _marker(text: str) -> str:
    return f"<[{257 + _Tokens.markers.index(text)}]>" if text in _Tokens.markers else json.dumps(text)


def _ids(text: str) -> list[int]:
    ids: list[int] = []
    while text:
        found = next((number for number, marker in enumerate(_Tokens.markers) if text.startswith(marker)), None)
        ids += [257 + found] if found is not None else list(text[0].encode())
        text = text[len(_Tokens.markers[found]) if found is not None else 1 :]
    return ids


def _accepts(grammar: str, text: str) -> bool:
    error = llguidance.LLMatcher.validate_grammar(grammar, TOKENIZER)
    assert not error, error
    matcher = llguidance.LLMatcher(TOKENIZER, grammar)
    ids = _ids(text)
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


@pytest.mark.parametrize(
    ("family", "prompt", "thought"),
    [
        ("gpt-oss", "<|start|>assistant", "<|channel|>analysis<|message|>I\nsee<|end|><|start|>assistant"),
        ("inkling", "<|message_model|>", "<|content_thinking|>I\nsee<|end_message|><|message_model|>"),
        ("functionary", ">>>", ""),
    ],
)
def test_forced_calls_go_on_where_the_prompt_ends(family: str, prompt: str, thought: str) -> None:
    calls = [("now", "{}"), ("f", '{"x": 1}')]
    row = get(family)
    grammar = row.call_grammar(TOOLS, choice="required", parallel=True, marker=_marker)
    text = thought + row.write_calls(calls).removeprefix(prompt)
    assert _accepts(grammar, text)
    assert not _accepts(grammar, "Sure! " + text)
    assert not _accepts(grammar, text.replace('"x": 1', '"x": "1"'))
    assert not _accepts(row.call_grammar(TOOLS, choice="required", parallel=False, marker=_marker), text)
    got = parse(row, text, tools=ToolSet(TOOLS), prompt=prompt, in_reasoning=None)
    assert [(call.name, call.arguments, call.repair) for call in got.calls] == [(*call, None) for call in calls]
    if thought:
        inside = row.call_grammar(TOOLS, choice="f", parallel=True, marker=_marker, starts_in_reasoning=True)
        closed = thought.split("<|message|>")[-1].split("thinking|>")[-1]
        assert _accepts(inside, closed + row.write_call("f", '{"x": 1}').removeprefix(prompt))


def test_without_special_tokens_no_thought_comes_first() -> None:
    grammar = get("gpt-oss").call_grammar(TOOLS, choice="now", parallel=False, marker=json.dumps)
    matcher = llguidance.LLMatcher(TOKENIZER, grammar)
    text = list(get("gpt-oss").write_call("now", "{}").removeprefix("<|start|>assistant").encode())
    assert matcher.try_consume_tokens(text) == len(text)
    assert matcher.is_accepting()


def test_templates_are_detected_by_their_family_only(shared_dir: Path) -> None:
    for path in sorted((shared_dir / "templates").glob("*.jinja")):
        name = detect(path.read_text(encoding="utf-8")).name
        framed = name in ("gpt-oss", "glimmer", "inkling", "functionary")
        assert (name if framed else None) == OWN.get(path.name), path.name


def test_the_markers_of_frames_are_markers_of_the_family() -> None:
    assert {"<|channel|>", "<|message|>", "<|start|>", "<|call|>"} <= set(get("harmony").markers)
    assert "\n" not in get("functionary-v3.2").markers
