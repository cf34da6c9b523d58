"""DeepSeek, Kimi and Solar Open: sections of calls, each a name with a JSON object, as models were seen to vary them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.formats.joined import Joined, parse

from daneel.formats.base import Tool
from daneel.formats.registry import detect, get
from daneel.formats.validate import ToolSet

TOOLS = ToolSet(
    [Tool("f", parameters={"type": "object", "properties": {"a": {}}, "required": ["a"]}), Tool("now"), Tool("x.y")]
)

DEEPSEEK = {"S": "<｜tool▁calls▁begin｜>", "E": "<｜tool▁calls▁end｜>", "B": "<｜tool▁call▁begin｜>", "P": "<｜tool▁sep｜>"}
DEEPSEEK["C"] = "<｜tool▁call▁end｜>"
KIMI = {"S": "<|tool_calls_section_begin|>", "E": "<|tool_calls_section_end|>", "B": "<|tool_call_begin|>"}
KIMI |= {"P": "<|tool_call_argument_begin|>", "C": "<|tool_call_end|>"}
SOLAR = {"S": "<|tool_calls|>", "E": "<|calls|>", "B": "<|tool_call:begin|>", "N": "<|tool_call:name|>"}
SOLAR |= {"P": "<|tool_call:args|>", "C": "<|tool_call:end|>"}
MARKERS = {"deepseek-r1": DEEPSEEK, "deepseek-v3.1": DEEPSEEK, "kimi-k2": KIMI, "solar-open": SOLAR}


def _written(family: str, text: str) -> str:
    """`text` with `«S»` and the like as the family's markers."""
    for letter, marker in MARKERS[family].items():
        text = text.replace(f"«{letter}»", marker)
    return text


def _read(family: str, text: str, **how: Any) -> Joined:
    """What comes out, the same at every single cut and letter by letter."""
    raw = _written(family, text)
    whole = parse(get(family), raw, tools=TOOLS, **how)
    for cut in range(1, len(raw)):
        assert parse(get(family), raw, (cut,), tools=TOOLS, **how).events == whole.events, cut
    assert parse(get(family), raw, range(len(raw)), tools=TOOLS, **how).events == whole.events
    return whole


A = '{"a": 1}'


@pytest.mark.parametrize(
    ("family", "text", "calls"),
    [
        ("deepseek-r1", f"«S»«B»function«P»f\n```json\n{A}\n```«C»«E»<｜end▁of▁sentence｜>", [("f", {"a": 1}, None)]),
        ("deepseek-r1", f"«S»\n«B»function«P»  f  \n```json\n{A}\n```\n«C»\n«E»", [("f", {"a": 1}, None)]),
        ("deepseek-r1", f"«S»«B»function«P»f\n```\n{A}\n```«C»«E»", [("f", {"a": 1}, None)]),
        ("deepseek-r1", f"«S»«B»function«P»f{A}«C»«E»", [("f", {"a": 1}, "missing_fence")]),
        ("deepseek-r1", f"«S»«B»function«P»f```json\n{A}«C»«E»", [("f", {"a": 1}, "missing_fence_end")]),
        ("deepseek-r1", f"«S»«B»f«P»{A}«C»«E»", [("f", {"a": 1}, "missing_type+missing_fence")]),
        ("deepseek-r1", f"«S»function«P»f\n```json\n{A}\n```«C»«E»", [("f", {"a": 1}, "missing_begin_marker")]),
        ("deepseek-r1", f"<｜tool▁calls｜>«B»function«P»f\n```json\n{A}\n```«C»«E»", [("f", {"a": 1}, None)]),
        ("deepseek-r1", "«S»«B»function«P»now\n```json\n\n```«C»«E»", [("now", {}, "no_arguments")]),
        ("deepseek-r1", f"«S»«B»function«P»f\n```json\n{A}\n```«E»", [("f", {"a": 1}, "missing_end_marker")]),
        ("deepseek-r1", f"«S»«B»function«P»f\n```json\n{A}\n```", [("f", {"a": 1}, "missing_end_marker+missing_close_marker")]),
        (
            "deepseek-r1",
            f"«S»«B»function«P»f\n```json\n{A}\n```«C»\n«B»function«P»now\n```json\n{{}}\n```«C»«E»",
            [("f", {"a": 1}, None), ("now", {}, None)],
        ),
        (
            "deepseek-r1",
            '«S»«B»function«P»f\n```json\n{"a": "```\\n```«C»«E»"}\n```«C»«E»',
            [("f", {"a": "```\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"}, None)],
        ),
        ("deepseek-v3.1", f"«S»«B»f«P»{A}«C»«B»x.y«P»{{}}«C»«E»", [("f", {"a": 1}, None), ("x.y", {}, None)]),
        ("deepseek-v3.1", f"«S»«B»f«P»```json\n{A}\n```«C»«E»", [("f", {"a": 1}, "fenced_arguments")]),
        ("deepseek-v3.1", f"«S»«B»function«P»f\n```json\n{A}\n```«C»«E»", [("f", {"a": 1}, "extra_type+fenced_arguments")]),
        ("deepseek-v3.1", f"«B»f«P»{A}«C»", [("f", {"a": 1}, "missing_open_marker+missing_close_marker")]),
        ("kimi-k2", f"«S»«B»functions.f:0«P»{A}«C»«E»<|im_end|>", [("f", {"a": 1}, None)]),
        ("kimi-k2", f"«S»\n«B» functions.x.y:12 «P» {A} «C»\n«E»\n", [("x.y", {"a": 1}, None)]),
        ("kimi-k2", f"«S»«B»f:3«P»{A}«C»«E»", [("f", {"a": 1}, None)]),
        ("kimi-k2", f"«S»«B»f«P»{A}«C»«E»", [("f", {"a": 1}, "incomplete_id")]),
        ("kimi-k2", "«S»«B»functions.now:0«P»«C»«E»", [("now", {}, "no_arguments")]),
        ("kimi-k2", f"«S»«B»functions.f:0«P»{A}}}«C»«E»", [("f", {"a": 1}, "missing_end_marker+extra_braces")]),
        ("kimi-k2", f"«S»«B»functions.f:0«P»{A}«C»«C»«E»«E»", [("f", {"a": 1}, None)]),
        (
            "kimi-k2",
            f"«B»functions.f:0«P»{A}«B»functions.now:1«P»{{}}",
            [
                ("f", {"a": 1}, "missing_open_marker+missing_end_marker"),
                ("now", {}, "missing_end_marker+missing_close_marker"),
            ],
        ),
        (
            "kimi-k2",
            f"«S»«B»functions.f:0«P»{A}«C»«E»«S»«B»functions.now:1«P»{{}}«C»«E»",
            [("f", {"a": 1}, None), ("now", {}, None)],
        ),
        ("solar-open", f"«S»«B»id12«N»f«P»{A}«C»«B»id13«N»now«P»{{}}«C»«E»", [("f", {"a": 1}, None), ("now", {}, None)]),
        ("solar-open", f"«S»«B»«N»f«P»{A}«C»«E»", [("f", {"a": 1}, "missing_id")]),
        ("solar-open", f"«S»«B»id«N»f«P»{A}", [("f", {"a": 1}, "missing_end_marker+missing_close_marker")]),
    ],
)  # fmt: skip
def test_calls(family: str, text: str, calls: list[tuple[str, dict[str, Any], str | None]]) -> None:
    got = _read(family, text)
    assert [(call.name, json.loads(call.arguments), call.repair) for call in got.calls] == calls
    assert (got.content.strip(), got.reasoning, got.failed) == ("", "", [])


@pytest.mark.parametrize("separator", ["_", " "])
@pytest.mark.parametrize(
    ("family", "text"),
    [("deepseek-r1", f"«S»«B»function«P»f\n```json\n{A}\n```«C»«E»"), ("deepseek-v3.1", f"«S»«B»f«P»{A}«C»«E»")],
)
def test_deepseeks_markers_with_another_separator(family: str, text: str, separator: str) -> None:
    got = _read(family, _written(family, text).replace("▁", separator))
    assert [(call.name, call.arguments, call.repair) for call in got.calls] == [("f", A, None)]
    assert got.content == ""


@pytest.mark.parametrize(
    ("family", "text", "call_id"),
    [
        ("kimi-k2", f"«S»«B»functions.f:7«P»{A}«C»«E»", "functions.f:7"),
        ("solar-open", f"«S»«B»a1b2c3d4e5«N»f«P»{A}«C»«E»", "a1b2c3d4e5"),
        ("deepseek-v3.1", f"«S»«B»f«P»{A}«C»«E»", None),
    ],
)
def test_the_models_own_ids_are_kept(family: str, text: str, call_id: str | None) -> None:
    (call,) = _read(family, text).calls
    assert call.call_id == call_id


@pytest.mark.parametrize(
    ("family", "text", "raw", "kind", "at"),
    [
        (
            "deepseek-r1",
            "«S»«B»function«P»f\n```json\n{a:1}\n```«C»«E»",
            "«S»«B»function«P»f\n```json\n{a:1}\n```«C»",
            "malformed",
            "a:1",
        ),
        ("deepseek-r1", f"«S»«B»function«P»{A}«C»«E»", f"«S»«B»function«P»{A}«C»", "malformed", "{"),
        ("deepseek-r1", f"«S»«B»«P»f```json\n{A}\n```«C»«E»", f"«S»«B»«P»f```json\n{A}\n```«C»", "malformed", "«P»"),
        ("deepseek-v3.1", f"«S»«B»f{A}«C»«E»", f"«S»«B»f{A}«C»", "malformed", "{"),
        ("deepseek-v3.1", '«S»«B»f«P»{"a": "x', '«S»«B»f«P»{"a": "x', "truncated", None),
        ("deepseek-v3.1", "«S»«B»f", "«S»«B»f", "truncated", None),
        ("kimi-k2", "«S»", "«S»", "truncated", None),
        ("kimi-k2", f"«S»«B»call_1«P»{A}«C»«E»", f"«S»«B»call_1«P»{A}«C»", "malformed", "call_1"),
        ("kimi-k2", f"«S»«B»functions.f.0«P»{A}«C»«E»", f"«S»«B»functions.f.0«P»{A}«C»", "malformed", "functions"),
        ("kimi-k2", '«S»«B»functions.f:0«P»"{}"«C»«E»', '«S»«B»functions.f:0«P»"{}"«C»', "malformed", '"'),
        ("kimi-k2", f"«S»functions.f:0«P»{A}«C»«E»", f"«S»functions.f:0«P»{A}«C»", "malformed", "functions"),
        ("kimi-k2", "«S»junk«E»", "«S»junk«E»", "malformed", "junk"),
        ("kimi-k2", "«S»«B»functions.f:0«P»«C»«E»", "«S»«B»functions.f:0«P»«C»«E»", "malformed", None),
        ("solar-open", "«S»«B»id«N»f«P»{bad}«C»«E»", "«S»«B»id«N»f«P»{bad}«C»", "malformed", "bad"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_fails_whole(family: str, text: str, raw: str, kind: str, at: str | None) -> None:
    got = _read(family, text + (" After." if kind == "malformed" else ""))
    (failed,) = got.failed
    assert (failed.raw, failed.error_type) == (_written(family, raw), kind)
    assert got.calls == []
    assert got.content.strip() == ("After." if kind == "malformed" else "")
    if at is not None:
        assert failed.raw[failed.offset :].startswith(_written(family, at)), failed.offset


def test_good_calls_beside_a_broken_one_survive() -> None:
    got = _read("kimi-k2", f"Hi.«S»«B»functions.f:0«P»{A}«C»«B»functions.f:1«P»{{bad«C»«B»functions.now:2«P»{{}}«C»«E»Then.")
    assert [call.call_id for call in got.calls] == ["functions.f:0", "functions.now:2"]
    assert [call.name for call in got.failed] == ["f"]
    assert got.content == "Hi.Then."


@pytest.mark.parametrize("family", ["deepseek-v3.1", "kimi-k2"])
def test_text_may_stand_between_calls_and_sections_may_be_empty(family: str) -> None:
    call = "«B»functions.now:0«P»{}«C»" if family == "kimi-k2" else "«B»now«P»{}«C»"
    got = _read(family, f"One.«S»{call} two {call}«E» three.«S» «E»")
    assert ([item.name for item in got.calls], got.content.split(), got.failed) == (["now"] * 2, ["One.", "two", "three."], [])


@pytest.mark.parametrize("family", ["deepseek-r1", "kimi-k2"])
def test_a_marker_that_is_only_spoken_of_is_text(family: str) -> None:
    for text in ("The marker «S» begins them.", "The marker «B» is special.", "`«B»`, that is"):
        got = _read(family, text)
        assert (got.content, got.calls, got.failed) == (_written(family, text), [], [])


def test_a_call_ends_the_thinking_unless_its_closing_tag_follows() -> None:
    call = f"«S»«B»functions.f:0«P»{A}«C»«E»"
    ends = _read("kimi-k2", f"<think>Hm.{call}")
    assert (ends.reasoning, [item.name for item in ends.calls]) == ("Hm.", ["f"])
    for inner in (call, "«S»«B»functions.f:0«P»{bad", "«B» is a marker"):
        goes_on = _read("kimi-k2", f"Hm.{inner}</think>So.", in_reasoning=True)
        assert (goes_on.reasoning, goes_on.content) == (_written("kimi-k2", f"Hm.{inner}"), "So.")
        assert (goes_on.calls, goes_on.failed) == ([], [])


@pytest.mark.parametrize(
    ("family", "prompt", "inside"),
    [
        ("deepseek-r1", "<｜User｜>Hi<｜Assistant｜><think>\n", True),
        ("deepseek-r1", "<｜User｜>What is <think>?<｜Assistant｜>", False),
        ("deepseek-v3.1", "<｜User｜>Hi<｜Assistant｜><think></think>", False),
        ("deepseek-v3.1", "<｜User｜>Hi<｜Assistant｜></think>", False),
        ("kimi-k2", "<|im_assistant|>assistant<|im_middle|><think>I", True),
        ("solar-open", "<|begin|>assistant<|think|><|end|><|begin|>assistant", False),
    ],
)
def test_the_prompt_says_whether_reasoning_is_open(family: str, prompt: str, inside: bool) -> None:
    assert get(family).starts_in_reasoning(prompt) is inside


def test_thoughts_before_the_content() -> None:
    got = _read("deepseek-r1", "a</think>\n\n<think>b</think>\n\nc</think>", in_reasoning=True)
    assert (got.reasoning, got.content) == ("ab", "c</think>")
    got = _read("deepseek-v3.1", " <｜Assistant｜></think> Hi.")
    assert (got.reasoning, got.content) == ("", "Hi.")


def test_solar_frames_its_messages() -> None:
    got = _read("solar-open", "<|think|>Hm.<|end|><|begin|>assistant<|content|>Hello.<|end|>")
    assert (got.reasoning, got.content) == ("Hm.", "Hello.")
    got = _read("solar-open", "<|think|>Hm.<|end|><|begin|>assistant«S»«B»i«N»now«P»{}«C»«E»")
    assert (got.reasoning, got.content, [call.name for call in got.calls]) == ("Hm.", "", ["now"])


def test_kimi_vl_thinks_between_marks_of_its_own() -> None:
    got = parse(get("kimi-vl-thinking"), "◁think▷Hm.◁/think▷So.")
    assert (got.reasoning, got.content) == ("Hm.", "So.")


OWN = {
    "deepseek-r1": "deepseek-r1", "deepseek-v3": "deepseek-v3", "deepseek-v3.1": "deepseek-v3.1", "kimi-k2": "kimi-k2",
    "solar-open": "solar-open", "gemma4": "gemma4", "functiongemma": "functiongemma", "gemma2 (no tools)": "gemma2",
}  # fmt: skip


def test_their_templates_are_told_from_all_others(shared_dir: Path) -> None:
    entries = json.loads((shared_dir / "templates" / "manifest.json").read_text(encoding="utf-8"))
    assert {entry["family"] for entry in entries} >= OWN.keys()
    for entry in entries:
        found = detect((shared_dir / "templates" / entry["file"]).read_text(encoding="utf-8")).name
        expected = OWN.get(entry["family"])
        assert found == expected or (expected is None and found not in {*OWN.values(), "kimi-vl"}), entry["file"]
