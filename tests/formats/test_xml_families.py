"""The families that write `<function=NAME>` blocks: detection, decoding grammars, reference cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import llguidance
import pytest
from tests.formats.joined import parse

from daneel.formats.base import Tool
from daneel.formats.families.xml import ROWS
from daneel.formats.registry import detect, get
from daneel.formats.validate import ToolSet

NAMES = [row.name for row in ROWS]
GROUPS = {
    "seed-oss": {"seed-oss"},
    "step3.5": {"step3.5"},
    "nemotron-v3": {"nemotron3"},
    "nemotron-v3.5": {"nemotron3"},
    "qwen3.8": {"qwen3.8"},
    "qwen3.5 (xml)": {"qwen3.5"},
    "qwen3-coder-xml": {"qwen3-coder"},
}
"""The reference data's names of families, and daneel's."""


def test_the_templates_of_these_families_and_no_others_are_detected(shared_dir: Path) -> None:
    templates = shared_dir / "templates"
    for item in json.loads((templates / "manifest.json").read_text(encoding="utf-8")):
        found = detect((templates / item["file"]).read_text(encoding="utf-8")).name
        if item["family"] in GROUPS:
            assert found in GROUPS[item["family"]], item["file"]
        else:
            assert found not in NAMES, item["file"]


def test_the_names_of_the_reference_data_are_known() -> None:
    assert {name: get(name).name for name in GROUPS} == {name: min(names) for name, names in GROUPS.items()}


TOOLS = [
    Tool("now"),
    Tool(
        "say",
        parameters={
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "unit": {"enum": ["m", "km"]},
                "times": {"type": "int"},
                "on": {"$ref": "#/$defs/flag"},
                "maybe": {"type": ["string", "null"]},
                "list": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["text", "times"],
            "$defs": {"flag": {"type": "boolean"}},
        },
    ),
    Tool("free", parameters={"type": "object"}),
]


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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("call", "arguments", "admitted"),
    [
        ("now", {}, True),
        ("now", {"x": "1"}, False),
        ("say", {"text": "a\n</b> </parameter>x", "times": 3}, True),
        ("say", {"text": "", "times": 3}, True),
        ("say", {"text": "a", "unit": "km", "times": 3, "maybe": "x", "list": ["a", "</parameter>"]}, True),
        ("say", {"text": "a", "unit": "mile", "times": 3}, False),
        ("say", {"text": "a", "times": "three"}, False),
        ("say", {"times": 3}, False),
        ("say", {"text": "a", "times": 3, "other": "x"}, False),
        ("free", {}, True),
        ("free", {"any": "thing", "more": "1"}, True),
        ("other", {}, False),
    ],
)
def test_what_the_decoding_grammar_admits_is_what_the_parser_reads(
    name: str, call: str, arguments: dict[str, Any], admitted: bool
) -> None:
    family = get(name)
    grammar = family.call_grammar(TOOLS, choice="required", parallel=True, marker=json.dumps)
    text = family.write_calls([(call, json.dumps(arguments))] * 2)
    if "list" in arguments:
        text = text.replace("'", '"')  # Seed's template prints lists as Python does, the grammar admits JSON
    assert _accepts(grammar, text) is admitted
    if admitted:
        got = parse(family, text, tools=ToolSet(TOOLS))
        assert [(found.name, json.loads(found.arguments)) for found in got.calls] == [(call, arguments)] * 2
        assert {found.repair for found in got.calls} == {None}


def test_constants_are_json_in_the_decoding_grammar() -> None:
    grammar = get("qwen3-coder").call_grammar(TOOLS, choice="say", parallel=False, marker=json.dumps)
    text = get("qwen3.8").write_calls([("say", '{"text": "a", "times": 1, "on": true}')])
    assert "true" in text
    assert _accepts(grammar, text)
    assert not _accepts(grammar, text.replace("true", "yes"))


def test_a_name_that_cannot_be_written_has_no_decoding_grammar() -> None:
    for tool in (Tool("a>b"), Tool("f", parameters={"type": "object", "properties": {"a\nb": {"type": "string"}}})):
        with pytest.raises(ValueError, match="cannot be written"):
            get("qwen3-coder").call_grammar([tool], choice="required", parallel=False, marker=json.dumps)
