"""Calls as Python writes them: what Python itself reads in them, at any cut; nothing evaluated, nothing guessed."""

from __future__ import annotations

import ast
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.joined import parse
from tests.formats.test_call_grammar import _accepts as accepts

from daneel.formats.base import Tool
from daneel.formats.python_args import PythonGrammar
from daneel.formats.python_scan import PythonCallScanner
from daneel.formats.registry import get
from daneel.formats.scan import ScannedCall
from daneel.formats.validate import ToolSet

LIST, LINES = PythonGrammar(), PythonGrammar(in_list=False)


def scan(text: str, cuts: tuple[int, ...] = (), grammar: PythonGrammar = LIST) -> PythonCallScanner:
    """Feed in pieces; what a scanner leaves unread comes again with the next piece, as the splitter does it."""
    scanner = grammar.scanner(ToolSet(None))
    rest = ""
    for start, end in pairwise([0, *sorted(cuts), len(text)]):
        rest += text[start:end]
        rest = rest[scanner.feed(rest, 0) :]
    scanner.finish()
    return scanner


def read(text: str, cuts: tuple[int, ...] = (), grammar: PythonGrammar = LIST) -> list[tuple[str, Any]]:
    scanner = scan(text, cuts, grammar)
    assert scanner.done, (scanner.error, scanner.expected)
    found = scanner.calls(text)
    assert all(isinstance(call, ScannedCall) for call in found)
    return [(call.name, json.loads(call.arguments or "null")) for call in found if isinstance(call, ScannedCall)]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("a=1, b=-2.5, c=1e3, d=+4, e=1_000, f=.5, g=5., h=0x1F, i=0b11, j=0o17", [1, -2.5, 1e3, 4, 1000, 0.5, 5.0, 31, 3, 15]),
        ("a=True, b=true, c=None, d=null, e=False, f=false", [True, True, None, None, False, False]),
        ("a='x', b=\"y\", c='', d=\"\", e='''z\n'q' \"w\"''', f=\"\"\"\"v\"\"\"", ["x", "y", "", "", "z\n'q' \"w\"", '"v']),
        (r"""a='Martha\'s', b='\"cool\"', c="\n\t\r\\\a\x41\u00e9\U0001F600\101\0", d='a\
b', e='\d\/'""", ["Martha's", '"cool"', "\n\t\r\\\aAé😀A\0", "ab", "\\d/"]),
        (r"""a=r'\d\'', b=u'x', c=R"\n" """, [r"\d\'", "x", r"\n"]),
        (r"""a='\ud83d\ude00', b="\ud83d" '\ude00'""", ["😀", "😀"]),
        ("a='x' 'y'\n \"z\", b=['p' 'q', 'r']", ["xyz", ["pq", "r"]]),
        ("a={'k': [1, {'l': {}},], \"m\": None,}, b=[], c=[[], [[1], 2]], d={}",
         [{"k": [1, {"l": {}}], "m": None}, [], [[], [[1], 2]], {}]),
        ("a = 1 , b\n=\t2,", [1, 2]),
        ("a='line\nbreak'", ["line\nbreak"]),
    ],
)  # fmt: skip
def test_literals(text: str, arguments: list[Any]) -> None:
    whole = f"[f({text})]"
    for cut in range(len(whole) + 1):
        assert [list(values.values()) for _, values in read(whole, (cut,))] == [arguments]
    assert [list(values.values()) for _, values in read(whole, tuple(range(len(whole))))] == [arguments]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[f()]", [("f", {})]),
        (" [ a.b-c_2 ( x = 1 ) , g(), ]", [("a.b-c_2", {"x": 1}), ("g", {})]),
        ("[f(a=1, **{'b c': 2, 'd': 3}, e=4, **{})]", [("f", {"a": 1, "b c": 2, "d": 3, "e": 4})]),
        ("[f(from='a', max-results=3)]", [("f", {"from": "a", "max-results": 3})]),
        ("f(a=1)", [("f", {"a": 1})]),
        ("f()\ng(x='\n')\n", [("f", {}), ("g", {"x": "\n"})]),
        ("f(), g(); h()", [("f", {}), ("g", {}), ("h", {})]),
    ],
)
def test_shapes(text: str, calls: list[tuple[str, Any]]) -> None:
    for cut in range(len(text) + 1):
        assert read(text, (cut,)) == calls
        assert read(text, (cut,), LINES) == calls


def test_a_shape_that_is_not_the_familys_is_a_repair() -> None:
    repairs = [
        call.repairs
        for grammar in (LIST, LINES)
        for text in ("[f(a='\n')]", "f()")
        for call in scan(text, (), grammar).calls(text)
        if isinstance(call, ScannedCall)
    ]
    assert repairs == [("raw_line_break",), ("missing_brackets",), ("list_body", "raw_line_break"), ()]


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("[f(1)]", 3, "an argument's name"),
        ("[f('x')]", 3, "positional"),
        ("[f(x)]", 3, "positional"),
        ("[f({'a': 1})]", 3, "positional"),
        ("[f(*[1])]", 3, "positional"),
        ("[f(**x)]", 3, "positional"),
        ("[f(a=x)]", 5, "x is not a literal"),
        ("[f(a=1+1)]", 5, "1+1 is not a literal"),
        ("[f(a=g())]", 5, "g is not a literal"),
        ("[f(a=f'x')]", 5, "f is not a literal"),
        ("[f(a=b'x')]", 5, "b is not a literal"),
        ("[f(a=(1, 2))]", 5, "a value"),
        ("[f(a={1, 2})]", 6, "a key in quotes"),
        ("[f(a={1: 2})]", 6, "a key in quotes"),
        ("[f(a=1, a=2)]", 8, "stands twice"),
        ("[f(a=1, **{'a': 2})]", 11, "stands twice"),
        ("[f(a={'b': 1, 'b': 2})]", 14, "stands twice"),
        ("[f(a=01)]", 5, "01 is not a literal"),
        ("[f(a=1__0)]", 5, "not a literal"),
        ("[f(a=nan)]", 5, "not a literal"),
        ("[f(a=1j)]", 5, "not a literal"),
        ("[f(a=.)]", 5, "not a literal"),
        (r"[f(a='\x4')]", 6, "escape"),
        (r"[f(a='\N{DASH}')]", 6, "escape"),
        (r"[f(a='\U00110000')]", 6, "escape"),
        ("[f(a=1) g()]", 8, "','"),
        ("[f(a=1), 3]", 9, "a tool's name"),
        ("[f(a=[1}]", 7, "']'"),
        ("[f(a=1]", 6, "')'"),
        ("[f(a:1)]", 3, "not an argument's name"),
        ("[f(a=)]", 5, "a value"),
        ("[,f()]", 1, "a tool's name"),
        ("[]", 1, "a tool's name"),
        ("[f(a=" + "[" * 200, 103, "nested"),
    ],
)
def test_what_is_not_read(text: str, offset: int, words: str) -> None:
    for cut in range(len(text) + 1):
        error = scan(text, (cut,)).error
        assert error is not None
        assert (error.offset, words in error.message) == (offset, True), error


@pytest.mark.parametrize(
    "text", ["", "[", "[f", "[f(", "[f(a", "[f(a=", "[f(a='", "[f(a='x", "[f(a=1", "[f(a=1),", "[f(a='x\\", "[f(*"]
)
def test_what_breaks_off(text: str) -> None:
    scanner = scan(text)
    assert not scanner.done
    assert scanner.error is None
    assert scanner.expected


def test_numbers_of_any_length_stay_as_they_are_written() -> None:
    text = f"[f(a={'9' * 10_000}, b=1.{'3' * 50}, c=1e999)]"
    call = scan(text).calls(text)[0]
    assert isinstance(call, ScannedCall)
    assert call.arguments == f'{{"a": {"9" * 10_000}, "b": 1.{"3" * 50}, "c": 1e999}}'


def test_half_a_character_stays_an_escape() -> None:
    text = r"[f(a='x\ud83d')]"
    call = scan(text).calls(text)[0]
    assert isinstance(call, ScannedCall)
    assert call.arguments == r'{"a": "x\ud83d"}'


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), values, max_size=4), st.data())
def test_it_reads_what_python_reads(arguments: dict[str, Any], data: st.DataObject) -> None:
    text = "[f(" + ", ".join(f"{key}={value!r}" for key, value in arguments.items()) + ")]"
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    call = ast.parse(text.replace("f(", "f_(", 1), mode="eval").body.elts[0]  # type: ignore[attr-defined]
    by_python = (
        {item.arg: ast.literal_eval(item.value) for item in call.keywords} if all(map(str.isidentifier, arguments)) else {}
    )
    assert by_python == arguments
    assert read(text, tuple(cuts)) == [("f", arguments)]


@pytest.mark.parametrize("grammar", [LIST, LINES, PythonGrammar(json_words=True)])
@given(calls=st.lists(st.dictionaries(st.text(), values, max_size=4), min_size=1, max_size=3), data=st.data())
def test_what_it_writes_it_reads_back(grammar: PythonGrammar, calls: list[dict[str, Any]], data: st.DataObject) -> None:
    given_calls = [(f"tool.{number}", arguments) for number, arguments in enumerate(calls)]
    ascii_only = data.draw(st.booleans())
    text = grammar.write_several([(name, json.dumps(arguments, ensure_ascii=ascii_only)) for name, arguments in given_calls])
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    assert grammar.head(text, 0) == "yes"
    assert read(text, tuple(cuts), grammar) == given_calls


@given(st.text("[]f(a=,'\"\\x1{}:*) \n\ud800é-.t_r", max_size=40), st.data())
def test_any_text_at_any_cut(text: str, data: st.DataObject) -> None:
    whole = scan(text)
    cut = scan(text, tuple(data.draw(st.lists(st.integers(0, len(text)), max_size=6))))
    assert (cut.done, cut.error, cut.name, cut.calls(text)) == (whole.done, whole.error, whole.name, whole.calls(text))
    for call in whole.calls(text):
        assert isinstance(call, ScannedCall)
        assert isinstance(json.loads(call.arguments or ""), dict)
        (call.arguments or "").encode()


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("", "more"), (" [", "more"), ("[ f", "more"), ("[f.g", "more"), ("[f (", "yes"), ("f(", "yes"), ("f", "more"),
        ("[link](", "no"), ("[1", "no"), ('[{"', "no"), ("[]", "no"), ("Hello, ", "no"), ("[f g", "no"),
    ],
)  # fmt: skip
def test_head(text: str, head: str) -> None:
    assert LIST.head(text, 0) == head


def test_the_decoding_grammar_admits_keyword_arguments_in_order() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["b"]}
    body, rules = LIST.lark_body(Tool("f", parameters=schema), 0, open_pad="", close_pad="", marker=str)
    assert body == '"f(" arguments_0_0 ")"'
    assert [rule for rule in rules if not rule.startswith("value")] == [
        'arguments_0_0: "a=" value_0_0 more_1_0 | arguments_1_0',
        'more_0_0: ", a=" value_0_0 more_1_0 | more_1_0',
        'arguments_1_0: "b=" value_1_0',
        'more_1_0: ", b=" value_1_0',
    ]
    with pytest.raises(ValueError, match="keyword"):
        LIST.lark_body(
            Tool("f", parameters={"type": "object", "properties": {"a b": {}}}), 0, open_pad="", close_pad="", marker=str
        )


@pytest.mark.parametrize("name", ["lfm2", "olmo3", "pythonic", "llama4-pythonic", "gemma3-pythonic"])
@pytest.mark.parametrize(
    ("choice", "parallel", "calls", "admitted"),
    [
        ("required", True, [("now", {})], True),
        ("required", True, [("now", {}), ("say", {"text": "a 'b' \"c\"\n", "loud": True}), ("say", {"text": ""})], True),
        ("required", False, [("say", {"text": "x", "tags": ["y", "z"]})], True),
        ("required", False, [("now", {}), ("now", {})], False),
        ("say", True, [("now", {})], False),
        ("required", True, [("say", {"loud": True})], False),
        ("required", True, [("say", {"text": 1})], False),
        ("required", True, [("say", {"text": "x", "why": 1})], False),
    ],
)
def test_what_may_be_decoded_is_what_is_read(
    name: str, choice: str, parallel: bool, calls: list[tuple[str, dict[str, Any]]], admitted: bool
) -> None:
    properties = {"text": {"type": "string"}, "loud": {"type": "boolean"}, "tags": {"type": "array"}}
    tools = [Tool("now"), Tool("say", parameters={"type": "object", "properties": properties, "required": ["text"]})]
    grammar = get(name).call_grammar(tools, choice=choice, parallel=parallel, marker=json.dumps)
    text = get(name).write_calls([(tool, json.dumps(arguments)) for tool, arguments in calls])
    assert accepts(grammar, text) is admitted
    got = parse(get(name), text, tools=ToolSet(tools))
    assert [(call.name, json.loads(call.arguments)) for call in got.calls] == calls
