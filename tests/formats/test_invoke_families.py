"""The families that write `<invoke name=...>` blocks: markers missing or cut off, calls in reasoning, detection, decoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import llguidance
import pytest
from tests.formats.joined import Joined, parse

from daneel.formats import registry
from daneel.formats.base import Tool
from daneel.formats.families.invoke import ROWS
from daneel.formats.validate import ToolSet

NAMES = [family.name for family in ROWS]
FILTERS = {
    "type": "object",
    "properties": {"lang": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["lang"],
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "q": {"type": "string"},
        "n": {"type": "integer"},
        "unit": {"enum": ["c", "f"]},
        "filters": FILTERS,
        "either": {"type": ["string", "null"]},
    },
    "required": ["q"],
}
TOOLS = [Tool("search", parameters=SCHEMA), Tool("now", parameters={"type": "object", "properties": {}})]
TOOLSET = ToolSet(TOOLS)
SEARCH = ("search", {"q": "a\n<b> \"c\" 'd' é", "n": -1, "filters": {"lang": "py", "tags": ["1", "x y"]}})


def read(name: str, text: str, *, in_reasoning: bool = False, truncated: bool = False) -> Joined:
    """What the family makes of a text, whole and character by character."""
    family = registry.get(name)
    whole = parse(family, text, tools=TOOLSET, in_reasoning=in_reasoning, truncated=truncated)
    cuts = tuple(range(1, len(text)))
    assert parse(family, text, cuts, tools=TOOLSET, in_reasoning=in_reasoning, truncated=truncated).events == whole.events
    return whole


def written(name: str, *calls: tuple[str, dict[str, Any]]) -> str:
    return registry.get(name).write_calls([(tool, json.dumps(arguments, ensure_ascii=False)) for tool, arguments in calls])


def calls(joined: Joined) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in joined.calls]


def test_templates_are_told_apart(shared_dir: Path) -> None:
    manifest = json.loads((shared_dir / "templates" / "manifest.json").read_text(encoding="utf-8"))
    seen = set()
    for entry in manifest:
        path = shared_dir / "templates" / entry["file"]
        if path.exists():
            found = registry.detect(path.read_text(encoding="utf-8")).name
            seen.add(found)
            assert (found in NAMES) == (entry["family"] in NAMES), entry["file"]
            assert found == entry["family"] or found not in NAMES
    assert seen >= {*NAMES} - {"step3"}


@pytest.mark.parametrize("name", NAMES)
def test_text_around_calls_and_turn_ends(name: str) -> None:
    stop = "".join(registry.get(name).stop_markers[:1])
    got = read(name, f"Before.\n\n{written(name, SEARCH, ('now', {}))}\nAfter.{stop}")
    assert calls(got) == [SEARCH, ("now", {})]
    assert not got.failed
    assert got.content.split() == ["Before.", "After."]
    assert all(call.repair is None for call in got.calls)


@pytest.mark.parametrize("name", NAMES)
def test_the_closing_marker_may_be_missing_but_not_the_end_of_the_call(name: str) -> None:
    syntax = registry.get(name).call
    text = written(name, ("now", {}), SEARCH).removesuffix(syntax.close).removesuffix(syntax.close_pad)
    if name != "minicpm5":  # there the marker is the end of the call
        got = read(name, text)
        assert calls(got) == [("now", {}), SEARCH]
        assert [call.repair for call in got.calls] == [None, "missing_close_marker"]
    full = written(name, SEARCH)
    for end in range(full.index("search") + 6, full.rindex("</function>" if name == "minicpm5" else "invoke>") + 1):
        for truncated in (False, True):
            got = read(name, full[:end], truncated=truncated)
            assert not got.calls, full[:end]
            assert [failed.error_type for failed in got.failed] == ["truncated"], full[:end]
            assert got.failed[0].name in ("search", None)


@pytest.mark.parametrize("name", ["minimax-m2", "minimax-m3", "deepseek-v3.2", "deepseek-v4", "step3"])
def test_the_opening_marker_may_be_missing(name: str) -> None:
    syntax = registry.get(name).call
    text = written(name, SEARCH).removeprefix(syntax.open + syntax.open_pad)
    got = read(name, f"Text. {text}\nAfter.")
    assert calls(got) == [SEARCH]
    assert got.calls[0].repair == "missing_open_marker"
    assert got.content == "Text. \nAfter."


@pytest.mark.parametrize("name", NAMES)
def test_a_call_in_reasoning(name: str) -> None:
    close = registry.get(name).reasoning.close  # type: ignore[union-attr]
    text = f"I must search.\n\n{written(name, SEARCH)}"
    got = read(name, text, in_reasoning=True)
    assert (got.reasoning.strip(), calls(got), got.content) == ("I must search.", [SEARCH], "")
    got = read(name, f"{text} No.{close}Done.", in_reasoning=True)
    assert (got.reasoning, got.calls, got.content) == (f"{text} No.", [], "Done.")


@pytest.mark.parametrize("name", NAMES)
def test_a_lone_end_of_reasoning(name: str) -> None:
    close = registry.get(name).reasoning.close  # type: ignore[union-attr]
    for in_reasoning in (False, True):
        got = read(name, f"{close}Hello.", in_reasoning=in_reasoning)
        assert (got.reasoning, got.content) == ("", "Hello.")


@pytest.mark.parametrize("name", ["minimax-m2", "minicpm5"])
def test_text_that_speaks_of_the_tags_is_text(name: str) -> None:
    tags = registry.get(name).call.grammar.tags  # type: ignore[attr-defined]
    for text in (
        f'Write {tags.call_open} name="x"> and then {tags.value_open} name="y">.',
        f"A {tags.call_open}> tag, or {tags.call_open} name=. It is text.",
    ):
        got = read(name, text)
        assert (got.content, got.calls, got.failed) == (text, [], [])


def test_a_broken_call_leaves_those_beside_it() -> None:
    block = written("minimax-m2", ("now", {}), SEARCH, ("now", {}))
    for broken in ("</parameter>junk", '<parameter name="q">'):
        text = block.replace('\n<parameter name="n">', f'{broken}\n<parameter name="n">')
        got = read("minimax-m2", text)
        assert calls(got) == [("now", {}), ("now", {})]
        assert [failed.name for failed in got.failed] == ["search"]


def test_names_of_the_other_deepseek_section_are_read() -> None:
    for name, other in (("deepseek-v3.2", "deepseek-v4"), ("deepseek-v4", "deepseek-v3.2")):
        assert calls(read(name, written(other, SEARCH))) == [SEARCH]


def test_undeclared_tools_are_calls() -> None:
    for name in NAMES:
        assert calls(read(name, written(name, ("other", {})))) == [("other", {})]


# -- decoding -----------------------------------------------------------------------------------------------------------

SPECIAL = ("｜DSML｜", "]<]minimax[>[")


class _Bytes:
    """Every byte, and two tokens that stand for texts of their own."""

    eos_token_id = 256
    bos_token_id = None
    tokens = [bytes([value]) for value in range(256)] + [b"<end>", *(b"\xff" + text.encode() for text in SPECIAL)]
    special_token_ids = [256, 257, 258]

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


TOKENIZER = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Bytes()), slices=[])


def _tokens(text: str, *, special: bool) -> list[int]:
    for number, token in enumerate(SPECIAL):
        if special and token in text:
            parts = [list(part.encode()) for part in text.split(token)]
            return [token_id for part in parts[:-1] for token_id in (*part, 257 + number)] + parts[-1]
    return list(text.encode())


def _admits(name: str, text: str, *, special: bool) -> bool:
    def marker(text: str) -> str:
        number = next((number for number, token in enumerate(SPECIAL) if special and token in text), None)
        if number is None:
            return json.dumps(text, ensure_ascii=False)
        before, after = (json.dumps(part) if part else "" for part in text.split(SPECIAL[number]))
        return f"{before} <[{257 + number}]> {after}".strip()

    family = registry.get(name)
    grammar = family.call_grammar(TOOLS, choice="required", parallel=True, marker=marker)
    assert not llguidance.LLMatcher.validate_grammar(grammar, TOKENIZER)
    matcher = llguidance.LLMatcher(TOKENIZER, grammar)
    ids = _tokens(text, special=special)
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


ADMITTED: list[list[tuple[str, dict[str, Any]]]] = [
    [("now", {})],
    [SEARCH],
    [SEARCH, ("now", {}), SEARCH],
    [("search", {"q": "", "n": 12, "unit": "f", "filters": {"lang": "", "tags": []}, "either": "x"})],
]
REFUSED: list[list[tuple[str, dict[str, Any]]]] = [
    [("search", {})],
    [("search", {"n": 1})],
    [("search", {"q": "x", "n": "one"})],
    [("search", {"q": "x", "unit": "k"})],
    [("search", {"q": "x", "other": 1})],
    [("other", {})],
]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_decoded_is_what_is_read(name: str) -> None:
    for given in ADMITTED:
        assert _admits(name, written(name, *given), special=False), given
        assert calls(read(name, written(name, *given))) == given
    for given in REFUSED:
        assert not _admits(name, written(name, *given), special=False), given


@pytest.mark.parametrize("name", ["deepseek-v3.2", "deepseek-v4", "minimax-m3"])
def test_a_part_of_the_tags_may_be_a_token_of_its_own(name: str) -> None:
    for given in ADMITTED:
        assert _admits(name, written(name, *given), special=True), given
    for given in REFUSED:
        assert not _admits(name, written(name, *given), special=True), given
