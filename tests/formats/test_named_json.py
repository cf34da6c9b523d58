"""Names with a JSON object behind them, at any cut."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.formats.base import Tool
from daneel.formats.named_json import MAX_HEAD, NamedJsonGrammar, NamedJsonScanner
from daneel.formats.scan import ScannedCall
from daneel.formats.validate import ToolSet

ARGS = NamedJsonGrammar(
    written="{name}[ARGS]{arguments}",
    heads=("{name}[ARGS]", "{name}[CALL_ID]{id}[ARGS]", "{name}"),
    head_repairs=("", "", "missing_arguments_marker"),
    tokens=("[ARGS]",),
)
FENCED = NamedJsonGrammar(
    written="<c>function<s>{name}\n```json\n{arguments}\n```</c>",
    heads=("<c>function<s>{name}\n```json", "<c>{name}<s>"),
    ends=("```</c>", "```", "</c>"),
)
BY_ID = NamedJsonGrammar(
    written="<c>functions.{name}:0<a>{arguments}</c>",
    heads=("<c>{id}<a>",),
    ends=("</c>",),
    name_in_id=r"(?:functions\.)?(?P<name>.+?)(?::\d+)?",
)


def scan(grammar: NamedJsonGrammar, text: str, step: int = 0) -> tuple[NamedJsonScanner, int]:
    """Feed `text` in pieces, what was left unread again with the next; returns where reading stopped."""
    scanner, at = grammar.scanner(ToolSet(None)), 0
    for end in range(step, len(text), step) if step else ():
        if not scanner.done and scanner.error is None:
            at += scanner.feed(text[at:end], 0)
    if not scanner.done and scanner.error is None:
        at += scanner.feed(text[at:], 0)
    return scanner, at


@pytest.mark.parametrize("step", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("grammar", "text", "name", "call_id", "repairs"),
    [
        (ARGS, 'f[ARGS]{"a": "[ARGS]{"}', "f", None, ()),
        (ARGS, ' f-1.b [ARGS] {"a": 1}', "f-1.b", None, ()),
        (ARGS, "f[CALL_ID]123456789[ARGS]{}", "f", "123456789", ()),
        (ARGS, 'f{"a": 1}', "f", None, ("missing_arguments_marker",)),
        (FENCED, '<c>function<s>f\n```json\n{"a": "```</c>"}\n```</c>', "f", None, ()),
        (FENCED, '<c>f<s>{"a": 1}</c>', "f", None, ()),
        (BY_ID, "<c>functions.get.it:12<a>{}</c>", "get.it", "functions.get.it:12", ()),
        (BY_ID, '<c>f<a> {"a": "</c>"} </c>', "f", "f", ()),
    ],
)
def test_reads_the_spellings(
    grammar: NamedJsonGrammar, text: str, name: str, call_id: str | None, repairs: tuple[str, ...], step: int
) -> None:
    scanner, at = scan(grammar, text, step)
    (call,) = scanner.calls(text)
    assert scanner.done
    assert at == len(text)
    assert isinstance(call, ScannedCall)
    assert (call.name, call.call_id, call.repairs, call.end) == (name, call_id, repairs, len(text))
    assert call.arguments is not None
    assert call.arguments in text
    assert json.loads(call.arguments) is not None


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    ("grammar", "text", "offset"),
    [
        (ARGS, 'f(a="x"){}', 1),
        (ARGS, 'f[ARGS]"{}"', 7),
        (ARGS, 'f[ARGS]{"a": 1,}', 15),
        (ARGS, "f[ARG]{}", 1),
        (FENCED, "<c>function<s>f\njson{}", 16),
        (BY_ID, "<c>functions.f:0</c>", 16),
    ],
)
def test_a_broken_body_fails_where_it_breaks(grammar: NamedJsonGrammar, text: str, offset: int, step: int) -> None:
    scanner, _ = scan(grammar, text, step)
    assert scanner.error is not None
    assert not scanner.done
    assert scanner.error.offset == offset


def test_the_head_is_looked_for_so_far_and_no_further() -> None:
    scanner, at = scan(ARGS, "f" * (MAX_HEAD + 1))
    assert scanner.error is not None
    assert at == 0


def test_no_arguments_before_the_end_marker() -> None:
    text = "<c>functions.f:0<a></c>"
    scanner, at = scan(BY_ID, text)
    assert scanner.done
    assert at == len(text)
    assert scanner.calls(text) == [ScannedCall("f", None, len(text), ("no_arguments",), "functions.f:0")]


@pytest.mark.parametrize("step", [0, 1])
def test_a_missing_end_marker_is_a_repair(step: int) -> None:
    scanner, at = scan(BY_ID, "<c>f:0<a>{} <c>", step)
    assert scanner.done
    assert at == len("<c>f:0<a>{} ")
    (call,) = scanner.calls("<c>f:0<a>{} ")
    assert isinstance(call, ScannedCall)
    assert call.repairs == ("missing_end_marker",)
    ended, _ = scan(BY_ID, "<c>f:0<a>{}")
    assert not ended.done
    ended.finish()
    assert ended.done


@pytest.mark.parametrize(
    ("call_id", "tools", "name"),
    [
        ("functions.f:0", None, "f"),
        ("f.g:12", None, "f.g"),
        ("f", ["f"], "f"),
        ("functions.f", ["f"], "f"),
        ("functions.f.0", ["f"], None),
        ("f", ["g"], None),
        ("f", None, None),
        ("call_12ab", ["f"], None),
    ],
)
def test_an_id_must_hold_the_name(call_id: str, tools: list[str] | None, name: str | None) -> None:
    grammar = replace(BY_ID, name_in_id=r"(?:functions\.)?(?P<name>.+):\d+", id_prefix="functions.")
    scanner = grammar.scanner(ToolSet(None if tools is None else [Tool(tool) for tool in tools]))
    scanner.feed(f"<c>{call_id}<a>{{}}</c>", 0)
    if name is None:
        assert scanner.error is not None
        assert (scanner.error.offset, scanner.name) == (3, None)
        return
    (call,) = scanner.calls("")
    assert isinstance(call, ScannedCall)
    assert (call.name, call.call_id) == (name, call_id)
    assert call.repairs == (() if ":" in call_id else ("incomplete_id",))


def test_a_cut_off_body_is_not_finished() -> None:
    for text in ("<c>f:0", "<c>f:0<a>", '<c>f:0<a>{"a": 1'):
        scanner, _ = scan(BY_ID, text)
        scanner.finish()
        assert not scanner.done


@pytest.mark.parametrize(
    ("grammar", "text", "head"),
    [
        (ARGS, "f", "more"),
        (ARGS, " ", "more"),
        (ARGS, "f[", "yes"),
        (ARGS, "f{", "yes"),
        (ARGS, "is a marker", "no"),
        (ARGS, ". It", "no"),
        (BY_ID, "<", "more"),
        (BY_ID, "<c>", "more"),
        (BY_ID, "<c>functions.f:0", "more"),
        (BY_ID, "<c>functions.f:0<", "yes"),
        (BY_ID, "<c>{", "yes"),
        (BY_ID, "<c> is a marker", "no"),
        (BY_ID, "<c>` is a marker", "no"),
        (BY_ID, "f", "no"),
    ],
)
def test_head(grammar: NamedJsonGrammar, text: str, head: str) -> None:
    assert grammar.head(text, 0) == head


@given(
    st.sampled_from([ARGS, FENCED, BY_ID]),
    st.from_regex(r"[a-zA-Z_][\w.-]{0,20}", fullmatch=True),
    st.dictionaries(st.text(max_size=5), st.text(max_size=10) | st.integers() | st.none(), max_size=3),
    st.integers(0, 4),
)
def test_what_is_written_comes_back(grammar: NamedJsonGrammar, name: str, arguments: dict[str, object], step: int) -> None:
    text = grammar.write(name, json.dumps(arguments))
    scanner, at = scan(grammar, text, step)
    assert scanner.done, scanner.error
    assert at == len(text)
    (call,) = scanner.calls(text)
    assert isinstance(call, ScannedCall)
    assert call.name == name
    assert json.loads(call.arguments or "") == arguments
    assert call.repairs == ()


@given(st.sampled_from([ARGS, FENCED, BY_ID]), st.text(alphabet='f[ARGS]<c>a/{}": ,1`json\n', max_size=40), st.integers(0, 3))
def test_any_text_is_read_or_refused(grammar: NamedJsonGrammar, text: str, step: int) -> None:
    scanner, at = scan(grammar, text, step)
    whole, end = scan(grammar, text)
    assert (scanner.done, scanner.error, scanner.name) == (whole.done, whole.error, whole.name)
    assert 0 <= at <= len(text)
    if scanner.done:
        assert at == end
        assert scanner.calls(text[:at]) == whole.calls(text[:at])
