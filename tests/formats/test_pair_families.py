"""GLM, Laguna, Hunyuan and LongCat as whole formats: detection, reasoning, calls, deviations, decoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import llguidance
import pytest
from tests.formats.joined import Joined, parse
from tests.formats.test_call_grammar import TOKENIZER

from daneel.formats.base import Tool
from daneel.formats.families.pairs import ROWS
from daneel.formats.registry import detect, get, resolve
from daneel.formats.validate import ToolSet

READ = Tool(
    "read",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "line": {"type": "integer"},
            "how": {"enum": ["text", "bytes"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "near": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["path"],
    },
)
TOOLS = ToolSet([READ, Tool("now")])
PATH_A = "<arg_key>path</arg_key><arg_value>a</arg_value>"
CALL = f"<tool_call>read{PATH_A}</tool_call>"
TAGGED = ["glm4.6", "glm4.7", "laguna"]


def got(name: str, text: str, *, inside: bool = False, truncated: bool = False) -> Joined:
    """What is read, in one piece and in single characters."""
    how: dict[str, Any] = {"tools": TOOLS, "in_reasoning": inside, "truncated": truncated}
    whole = parse(get(name), text, **how)
    assert parse(get(name), text, tuple(range(1, len(text))), **how).events == whole.events
    return whole


def calls(joined: Joined) -> list[tuple[str, Any, str | None]]:
    return [(call.name, json.loads(call.arguments), call.repair) for call in joined.calls]


A = ("read", {"path": "a"}, None)
NOW = ("now", {}, None)


# -- detection ----------------------------------------------------------------------------------------------------------


def test_each_template_is_of_its_family_and_no_other_is(shared_dir: Path) -> None:
    folder, own = shared_dir / "templates", {row.name for row in ROWS}
    found = []
    for entry in json.loads((folder / "manifest.json").read_text(encoding="utf-8")):
        family = detect((folder / entry["file"]).read_text(encoding="utf-8"))
        wanted = get(entry["family"]).name if entry["family"] in _names() else None
        assert (family.name if family.name in own else None) == wanted, entry["file"]
        found += [wanted] if wanted else []
    assert set(found) == own


def _names() -> set[str]:
    return {name for row in ROWS for name in (row.name, *row.aliases)}


def test_longcat_chat_writes_json() -> None:
    assert detect('<longcat_tool_call>{"name": ...}</longcat_tool_call>').full_name == "longcat/json"


@pytest.mark.parametrize(
    ("template", "suffix"),
    [
        ("{%- set HYTK = ':opensource' %}<｜hy_eos{}｜><tool_sep{}>", ":opensource"),
        ('{% set HYTK = "" %}<｜hy_eos｜><tool_sep{}>', ""),
        ("<｜hy_eos:v4｜> <tool_call:v4>NAME<tool_sep:v4>", ":v4"),
        ("<｜hy_eos｜> <tool_call>NAME<tool_sep>", ""),
    ],
)
def test_the_suffix_of_hunyuans_tags_is_the_templates(template: str, suffix: str) -> None:
    family = detect(template)
    assert family.name == "hunyuan-v3"
    assert resolve("hunyuan-v3", template).call == family.call
    assert (family.call.open, family.stop_markers[0]) == (f"<tool_calls{suffix}>", f"<｜hy_eos{suffix}｜>")
    assert family.call.also_open == ()
    (call,) = parse(family, family.write_calls([("read", '{"path": "a"}')]) + family.stop_markers[0], tools=TOOLS).calls
    assert f"<arg_value{suffix}>a</arg_value{suffix}>" in call.raw
    assert family.starts_in_reasoning(f"<｜hy_Assistant{suffix}｜><think{suffix}>")
    assert not family.starts_in_reasoning(f"<｜hy_Assistant{suffix}｜><think{suffix}></think{suffix}>")


@pytest.mark.parametrize("suffix", ["", ":opensource"])
def test_without_a_template_hunyuans_published_spellings_are_read(suffix: str) -> None:
    text = (
        f"<think{suffix}>why</think{suffix}>Text<tool_calls{suffix}>\n<tool_call{suffix}>read<tool_sep{suffix}>\n"
        f"<arg_key{suffix}>path</arg_key{suffix}>\n<arg_value{suffix}>a</arg_value{suffix}>\n</tool_call{suffix}>\n"
        f"<tool_call{suffix}>now<tool_sep{suffix}></tool_call{suffix}>\n</tool_calls{suffix}><｜hy_eos{suffix}｜>"
    )
    joined = got("hunyuan-v3", text)
    assert (joined.reasoning, joined.content, calls(joined)) == ("why", "Text", [A, NOW])


# -- content and reasoning ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TAGGED)
@pytest.mark.parametrize(
    ("text", "content", "found"),
    [
        (f"Text. {CALL}\n<tool_call>now</tool_call>\nMore.", "Text. \n\nMore.", [A, NOW]),
        (f"{CALL}{CALL}", "", [A, A]),
        ("<tool_call>\nnow\n</tool_call>", "", [NOW]),
        ("A <tool_call> is a marker, </tool_call> too.", None, []),
        ("Write <tool_call> and a name.", "Write <tool_call> and a name.", []),
        ("<arg_key>k</arg_key><arg_value>v</arg_value>", "<arg_key>k</arg_key><arg_value>v</arg_value>", []),
        ("<tool_call>nowhere</tool_call>", "", [("nowhere", {}, None)]),
    ],
)
def test_text_and_calls(name: str, text: str, content: str | None, found: list[Any]) -> None:
    joined = got(name, text)
    assert calls(joined) == found
    assert content is None or joined.content == content


@pytest.mark.parametrize("name", [*TAGGED, "hunyuan-v3", "longcat"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_call_in_reasoning_is_one_if_the_reasoning_is_not_closed(name: str, inside: bool) -> None:
    family = get(name)
    assert family.reasoning is not None
    opened = "" if inside else family.reasoning.open
    call = family.write_calls([("read", '{"path": "a"}')])
    joined = got(name, f"{opened}Hm {call}", inside=inside)
    assert (joined.reasoning, calls(joined)) == ("Hm ", [A])
    joined = got(name, f"{opened}Hm {call} no.{family.reasoning.close}Text", inside=inside)
    assert (joined.reasoning, joined.content, joined.calls) == (f"Hm {call} no.", "Text", [])


def test_reasoning_that_ends_in_a_calls_beginning() -> None:
    joined = got("glm4.6", "<think>Hm <tool_call>read", truncated=True)
    assert joined.reasoning == "Hm "
    assert [failed.error_type for failed in joined.failed] == ["truncated"]


def test_a_closing_tag_right_behind_the_reasoning_says_nothing() -> None:
    joined = got("glm4.6", "<think>why</think>\n</think>Text</think>")
    assert (joined.reasoning, joined.content) == ("why", "Text</think>")


@pytest.mark.parametrize("name", [*TAGGED, "hunyuan-v3", "hunyuan-a13b", "longcat"])
def test_the_turns_end_vanishes_and_a_call_may_lack_its_own(name: str) -> None:
    family = get(name)
    assert got(name, f"Text{family.stop_markers[0]}").content == "Text"
    written = family.write_calls([("read", '{"path": "a"}')])
    unclosed = written[: len(written) - len(family.call.close_pad + family.call.close)]
    joined = got(name, unclosed + family.stop_markers[0])
    assert [call[:2] for call in calls(joined)] == [A[:2]]
    assert joined.calls[0].repair in ("missing_close_marker", "array_body+missing_close_marker")


def test_the_wrapper_of_hunyuans_answers_vanishes() -> None:
    joined = got("hunyuan-a13b", "<think>\nwhy\n</think>\n<answer>\nText\n</answer>")
    assert (joined.reasoning.strip(), joined.content.strip()) == ("why", "Text")
    text = '<tool_calls>[{"name": "read", "arguments": {"path": "a"}}, {"name": "now", "arguments": {}}]</tool_calls>'
    assert [call[:2] for call in calls(got("hunyuan-a13b", f"<answer>\n{text}\n</answer>"))] == [A[:2], NOW[:2]]


# -- deviations -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>', ("read", {"path": "a"}, "json_body")),
        ('<tool_call>\n{"name": "read_file", "arguments": {}}\n</tool_call>', ("read_file", {}, "json_body")),
        ('<tool_call>read\n{"path": "a"}\n</tool_call>', ("read", {"path": "a"}, "json_arguments")),
        ('Text.\n{"name": "read", "arguments": {"path": "a"}}', ("read", {"path": "a"}, "bare_json")),
    ],
)
def test_lagunas_deviations_are_repairs_and_rename_nothing(text: str, found: tuple[str, Any, str]) -> None:
    assert calls(got("laguna", text)) == [found]


def test_what_laguna_writes_about_users_is_text() -> None:
    assert got("laguna", "<user>hello</user>").content == "<user>hello</user>"


def test_both_forms_of_longcat_are_its_own() -> None:
    for text in (
        '<longcat_tool_call>{"name": "read", "arguments": {"path": "a"}}</longcat_tool_call>',
        "<longcat_tool_call>read\n<longcat_arg_key>path</longcat_arg_key>\n<longcat_arg_value>a</longcat_arg_value>\n"
        "</longcat_tool_call>",
    ):
        assert calls(got("longcat", f"{text}\n{text}</longcat_s>")) == [A, A]


@pytest.mark.parametrize("name", ["glm4.7", "laguna"])
def test_good_calls_beside_a_broken_one_survive(name: str) -> None:
    broken = "<tool_call>read<arg_key>path</arg_key>a</arg_value></tool_call>"
    joined = got(name, f"{CALL}{broken}<tool_call>now</tool_call>")
    assert calls(joined) == [A, NOW]
    (failed,) = joined.failed
    assert (failed.name, failed.raw, failed.raw[failed.offset :]) == ("read", broken, "a</arg_value></tool_call>")


def test_good_calls_of_a_section_beside_a_broken_one_survive() -> None:
    good = f"<tool_call>read<tool_sep>{PATH_A}</tool_call>"
    broken = "<tool_call>read<tool_sep><arg_key>path</arg_key>a</arg_value></tool_call>"
    now = "<tool_call>now<tool_sep></tool_call>"
    joined = got("hunyuan-v3", f"<tool_calls>{good}{broken}{now}</tool_calls>Text")
    assert (calls(joined), len(joined.failed), joined.content) == ([A, NOW], 1, "Text")
    assert calls(got("hunyuan-v3", f"Text {good}")) == [("read", {"path": "a"}, "missing_open_marker+missing_close_marker")]


@pytest.mark.parametrize("name", TAGGED)
@pytest.mark.parametrize("cut", range(len("<tool_call>r"), len(CALL) - len("</tool_call>")))
def test_a_call_that_the_length_limit_cuts_off_is_none(name: str, cut: int) -> None:
    joined = got(name, CALL[:cut], truncated=True)
    assert joined.calls == []
    assert [(failed.error_type, failed.raw) for failed in joined.failed] == [("truncated", CALL[:cut])]


# -- decoding -------------------------------------------------------------------------------------------------------------


def _admits(grammar: str, text: str) -> bool:
    assert not llguidance.LLMatcher.validate_grammar(grammar, TOKENIZER)
    matcher, ids = llguidance.LLMatcher(TOKENIZER, grammar), list(text.encode())
    return matcher.try_consume_tokens(ids) == len(ids) and bool(matcher.is_accepting())


@pytest.mark.parametrize("name", [*TAGGED, "hunyuan-v3", "longcat"])
@pytest.mark.parametrize(
    ("arguments", "admitted"),
    [
        ({"path": "a"}, True),
        ({"path": 'x < y\n"é"</b>', "line": 3, "how": "text", "tags": ["a", "b"], "near": "null"}, True),
        ({"path": "", "tags": []}, True),
        ({"line": 3}, False),
        ({"path": "a", "line": "three"}, False),
        ({"path": "a", "how": "words"}, False),
        ({"path": "a", "tags": [1]}, False),
        ({"path": "a", "more": "b"}, False),
    ],
)
def test_what_may_be_decoded_is_what_the_family_writes(name: str, arguments: dict[str, Any], admitted: bool) -> None:
    family = get(name)
    grammar = family.call_grammar([READ, Tool("now")], choice="required", parallel=True, marker=json.dumps)
    text = family.write_calls([("now", "{}"), ("read", json.dumps(arguments, ensure_ascii=False))])
    assert _admits(grammar, text) is admitted
    if admitted:
        wanted = {**arguments, **({"near": None} if "near" in arguments else {})}  # the schema takes null before text
        assert [(call.name, json.loads(call.arguments)) for call in parse(family, text, tools=TOOLS).calls] == [
            ("now", {}),
            ("read", wanted),
        ]


def test_special_tokens_stand_by_themselves_in_the_decoding_grammar() -> None:
    grammar = get("glm4.7").call_grammar([READ], choice="read", parallel=False, marker=lambda text: f"<[{len(text)}]>")
    assert '<[9]> "path" <[10]> <[11]> value_0_0 <[12]>' in grammar
    assert "value_0_0: /(.|\\n)*/" in grammar
