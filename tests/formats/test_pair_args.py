"""Calls written as pairs of tags: what is read, what is put right, what fails, and where."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.formats.base import Tool
from daneel.formats.pair_args import PairGrammar, suffixed
from daneel.formats.pair_scan import PairScanner
from daneel.formats.pair_tags import PairTags
from daneel.formats.scan import ScannedCall
from daneel.formats.validate import ToolSet

GLM = PairGrammar(others=("<tool_call>", "<|user|>"))
SECTION = PairGrammar(
    PairTags(body_open="<tool_call>", name_end="<tool_sep>", body_close="</tool_call>"),
    closes=("</tool_calls>",),
    others=("<tool_calls>", "<|user|>"),
)
WRITE = Tool(
    "write",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "text": {"type": "string"},
            "line": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["path"],
    },
)
TOOLS = ToolSet([WRITE, Tool("now")])
ANY = ToolSet(None)
BEGUN = "write<arg_key>path</arg_key><arg_value>"


def pair(key: str, value: str) -> str:
    return f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>"


def scan(text: str, *, grammar: PairGrammar = GLM, tools: ToolSet = TOOLS, cuts: tuple[int, ...] = ()) -> PairScanner:
    """A scanner fed with the text in pieces, then told that no more comes."""
    scanner, left = grammar.scanner(tools), ""
    for start, end in pairwise([0, *sorted(cuts), len(text)]):
        left += text[start:end]
        left = left[scanner.feed(left, 0) :]
        if scanner.done or scanner.error is not None:
            return scanner
    scanner.finish()
    return scanner


def read(text: str, *, grammar: PairGrammar = GLM, tools: ToolSet = TOOLS) -> tuple[str, Any, tuple[str, ...]]:
    """Name, arguments and repairs of the one call of the body; the same at every single cut and in single characters."""
    every = tuple(range(1, len(text)))
    results = []
    for cuts in ((), every, *((cut,) for cut in every)):
        scanner = scan(text, grammar=grammar, tools=tools, cuts=cuts)
        assert scanner.done, (scanner.error, scanner.expected)
        (call,) = scanner.calls(text)
        assert isinstance(call, ScannedCall)
        results.append((call.name, json.loads(call.arguments or "null"), call.repairs))
    assert all(result == results[0] for result in results)
    return results[0]


def error(text: str, *, grammar: PairGrammar = GLM, tools: ToolSet = TOOLS) -> tuple[str, int]:
    for cuts in ((), tuple(range(1, len(text)))):
        scanner = scan(text, grammar=grammar, tools=tools, cuts=cuts)
        assert not scanner.done
        assert scanner.error is not None, scanner.expected
    assert scanner.error is not None
    return scanner.error.message, scanner.error.offset


@pytest.mark.parametrize("gap", ["", "\n", " \r\n\t"])
@pytest.mark.parametrize("value", ["", "x", "  x\n\n", '"x"', "a < b </ c <arg", "<arg_key>", "<arg_key>k</arg_key>", "é🎉\\n"])
def test_white_space_between_tags_is_free_and_inside_a_value_its_own(gap: str, value: str) -> None:
    text = f"write{gap}<arg_key>path</arg_key>{gap}<arg_value>{value}</arg_value>{gap}</tool_call>"
    assert read(text) == ("write", {"path": value}, ())


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("line", "5", 5),
        ("line", " 5\n", 5),
        ("line", "five", "five"),
        ("tags", '["a", "b"]', ["a", "b"]),
        ("tags", "['a']", ["a"]),
        ("path", "5", "5"),
        ("path", '["a"]', '["a"]'),
        ("unheard", "5", "5"),
    ],
)
def test_the_schema_says_what_a_value_is(key: str, value: str, wanted: object) -> None:
    assert read(f"write{pair(key, value)}</tool_call>")[1] == {key: wanted}


@pytest.mark.parametrize("text", ["now</tool_call>", "now\n</tool_call>", "\nnow\n\n</tool_call>"])
def test_a_call_without_arguments(text: str) -> None:
    assert read(text) == ("now", {}, ())


@pytest.mark.parametrize("name", ["post-message.v2", "mcp__a__b", "ns:tool", "a/b", "wetter_für"])
def test_names(name: str) -> None:
    assert read(f"{name}</tool_call>") == (name, {}, ())


def test_the_body_of_a_section_has_its_own_end() -> None:
    text = f"<tool_call>write<tool_sep>\n{pair('path', 'a')}\n</tool_call>"
    assert read(text, grammar=SECTION) == ("write", {"path": "a"}, ())
    assert read("<tool_call>now<tool_sep></tool_call>", grammar=SECTION) == ("now", {}, ())


def test_tags_may_have_another_spelling() -> None:
    tags = SECTION.tags
    grammar = PairGrammar(tags, (suffixed(tags, ":x"),), closes=("</tool_calls>", "</tool_calls:x>"), others=())
    text = "<tool_call:x>write<tool_sep:x><arg_key:x>path</arg_key:x><arg_value:x>a</arg_value:x></tool_call:x>"
    assert read(text, grammar=grammar) == ("write", {"path": "a"}, ())
    only = PairGrammar(suffixed(tags, ":x"), closes=("</tool_calls:x>",), others=())
    assert only.write("write", '{"path": "a"}') == text
    assert only.head("<tool_call>write<tool_sep>", 0) == "no"


# -- repairs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "arguments", "repairs"),
    [
        (
            "write<arg_key>path</arg_key><arg_value>a" + pair("line", "2") + "</tool_call>",
            {"path": "a", "line": 2},
            "value_end",
        ),
        ("write<arg_key>path</arg_key><arg_value>a</tool_call>", {"path": "a"}, "value_end"),
        ("write<arg_key>path</arg_key><arg_value>a</tool_call>\n<tool_call>", {"path": "a"}, "value_end"),
        ("write<arg_key>path<arg_value>a</arg_value></tool_call>", {"path": "a"}, "key_end"),
    ],
)
def test_a_missing_closing_tag(text: str, arguments: dict[str, Any], repairs: str) -> None:
    assert read(text) == ("write", arguments, (f"missing_{repairs}",))


def test_white_space_around_a_declared_key() -> None:
    assert read(f"write{pair(' path ', 'a')}</tool_call>") == ("write", {"path": "a"}, ("key_white_space",))
    assert read(f"write{pair(' paths ', 'a')}</tool_call>")[1] == {" paths ": "a"}


@pytest.mark.parametrize("text", ['{"name": "now", "arguments": {}}', '\n{"name": "now", "arguments": {}}\n</tool_call>'])
def test_a_json_object_in_place_of_the_pairs(text: str) -> None:
    assert read(text) == ("now", {}, ("json_body",))


def test_json_arguments_behind_the_name() -> None:
    assert read('write\n{"path": "a", "line": 1}\n</tool_call>') == ("write", {"path": "a", "line": 1}, ("json_arguments",))
    text = "<tool_call>write<tool_sep></tool_call>"
    assert read(text, grammar=SECTION)[1] == {}
    assert read('<tool_call>write {"path": "a"}</tool_call>', grammar=SECTION)[1] == {"path": "a"}


def test_a_missing_separator_behind_the_name() -> None:
    text = f"<tool_call>write{pair('path', 'a')}</tool_call>"
    assert read(text, grammar=SECTION) == ("write", {"path": "a"}, ("missing_name_end",))


@pytest.mark.parametrize("end", ["</tool_calls>", "<tool_call>now<tool_sep>", "\n<|user|>", ""])
def test_a_missing_end_of_the_call_when_its_arguments_are_complete(end: str) -> None:
    text = f"<tool_call>write<tool_sep>{pair('path', 'a')}"
    assert read(text + end, grammar=SECTION) == ("write", {"path": "a"}, ("missing_end_marker",))


@pytest.mark.parametrize("end", ["", "\n", "</tool_c", "<tool_call>", "<|user|>"])
def test_without_an_end_only_a_call_that_wants_no_more_is_one(end: str) -> None:
    assert read(f"write{pair('path', 'a')}{end}") == ("write", {"path": "a"}, ())
    for text in (f"write{pair('text', 'a')}{end}", f"other{pair('path', 'a')}{end}"):
        assert not scan(text).done


@pytest.mark.parametrize("end", ["<", "<arg_k", "<arg_key>te"])
def test_a_pair_that_is_begun_is_no_end(end: str) -> None:
    assert not scan(f"write{pair('path', 'a')}{end}").done


def test_a_marker_need_not_begin_as_the_tags_do() -> None:
    grammar = PairGrammar(others=("<tool_call>", "〈|EOS|〉"))
    assert read(f"write{pair('path', 'a〈|EOS|〉')}〈|EOS|〉", grammar=grammar)[1] == {"path": "a〈|EOS|〉"}
    assert error("write<arg_key>path〈|EOS|〉", grammar=grammar) == ("expected '</arg_key>'", 18)


# -- failures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("write x</tool_call>", "expected '<arg_key>' or '</tool_call>'", "x<"),
        ("write\\n<arg_key>path</arg_key>", "expected '<arg_key>' or '</tool_call>'", "\\n"),
        ("write<arg_key>path</arg_key>a</arg_value></tool_call>", "expected '<arg_value>'", "a</arg_value>"),
        ("write<arg_key>path</arg_key></tool_call>", "expected '<arg_value>'", "</tool_call>"),
        ("write<arg_key>path</tool_call>", "expected '</arg_key>'", "</tool_call>"),
        (f"write{pair('path', 'a')}x</tool_call>", "expected '<arg_key>' or '</tool_call>'", "x</tool_call>"),
        (f"write{pair('path', 'a')}{pair('line', '1')}{pair('line', '2')}", 'the key "line" stands twice', pair("line", "2")),
        # the second key is none of the tool's: a value that speaks of keys, or one that is not closed
        (f"{BEGUN}a{pair('x', 'b')}</tool_call>", "expected '</arg_value>'", "<arg_key>x"),
        # a value that holds a whole call could end anywhere
        (f"{BEGUN}<tool_call>f{pair('text', 'b')}", "expected '</arg_value>'", "<arg_key>text"),
        ('write{"path": }', "expected a value", "}"),
        ('{"name": now}', "now is not a JSON value", "now"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(text: str, message: str, at: str) -> None:
    assert error(text) == (message, text.index(at))


@pytest.mark.parametrize("tail", [" and more", "\nText.", "</arg_value></tool_call>"])
def test_the_end_of_a_call_inside_a_value_is_text_where_text_follows(tail: str) -> None:
    scanner = scan(f"{BEGUN}a</tool_call>{tail}")
    assert scanner.done is tail.endswith("</tool_call>")
    if scanner.done:
        (call,) = scanner.calls("")
        assert isinstance(call, ScannedCall)
        assert json.loads(call.arguments or "") == {"path": "a</tool_call>"}


# -- heads --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("", "more"), ("\n ", "more"), ("now", "more"), ("now\n", "more"), ("now<", "more"), ("now</tool_", "more"),
        ("now</tool_call>", "yes"), ("now\n<arg_key>", "yes"), ("now<tool_call>", "yes"), ('now\n{"a"', "yes"),
        ("tool call", "more"), ("tool call.", "more"), ("tool call\n<arg_key>", "yes"), ("tool call</tool_call>", "no"),
        ("write\\n<arg_key>", "yes"),
        ("tool call\n", "more"), ("tool call\nText", "no"), (" tool call", "no"), ("is a marker,", "no"), ("now\nText", "no"),
        ("now<b>", "no"), ("</tool_call>", "no"), ("<b>", "no"), ("{", "more"), ('{ "', "yes"), ("{}", "yes"),
        ("{function}", "no"), ("[", "more"), ("[{", "yes"), ("[a]", "no"), ("x" * 300, "no"),
    ],
)  # fmt: skip
def test_a_marker_without_a_name_and_a_tag_is_text(text: str, head: str) -> None:
    assert GLM.head(text, 0) == head


@given(
    st.lists(
        st.sampled_from(["now", "write", " ", "\n", "<arg_key>", "</tool_call>", "<", "x", "{", '"', "[", "."]), max_size=6
    )
)
def test_a_head_that_is_decided_stays_so(parts: list[str]) -> None:
    text = "".join(parts)
    answers = [GLM.head(text[:size], 0) for size in range(len(text) + 1)]
    decided = [answer for answer in answers if answer != "more"]
    assert len(set(decided)) <= 1
    assert answers == ["more"] * (len(answers) - len(decided)) + decided


# -- writing ------------------------------------------------------------------------------------------------------------


def test_numbers_and_nested_values_are_written_as_they_are() -> None:
    written = GLM.write("write", '{"line": 1e2, "tags": ["a",1.50], "path": "a\\n\\"b\\""}')
    assert written == "write" + pair("line", "1e2") + pair("tags", '["a",1.50]') + pair("path", 'a\n"b"')


@given(st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: "</arg_" not in text and "<arg_key>" not in text))
def test_any_text_without_the_tags_comes_back(text: str) -> None:
    for tools in (TOOLS, ANY):
        body = GLM.write("write", json.dumps({"path": text}))
        scanner = scan(body + "</tool_call>", tools=tools)
        (call,) = scanner.calls(body)
        assert isinstance(call, ScannedCall)
        assert json.loads(call.arguments or "") == {"path": text}


@pytest.mark.parametrize(
    "unit", ["x", "<", "<arg_key>", "<arg_key>k</arg_key> ", "</tool_call> x", "<tool_call>", "</arg_value"]
)
def test_reading_is_linear_however_the_text_is_cut(unit: str) -> None:
    def seconds(size: int) -> float:
        text = BEGUN + unit * (size // len(unit))
        scanner, left = GLM.scanner(TOOLS), ""
        start = time.process_time()
        for char in text:
            left += char
            left = left[scanner.feed(left, 0) :]
            assert len(left) < 400
        assert scanner.error is None
        return time.process_time() - start

    short = min(seconds(2_000) for _ in range(3))
    assert seconds(20_000) < 30 * short
