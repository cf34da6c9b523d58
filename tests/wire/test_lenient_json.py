from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.wire.lenient_json import SurrogateJoiner, decode, decode_lines, whole_characters


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('  {"a": 1}  ', {"a": 1}),
        ('{"a": "x\ny"}', {"a": "x\ny"}),
        ('{"a": "\\ud83d"}', {"a": "\ud83d"}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        ('{"a": Infinity}', {"a": float("inf")}),
    ],
)
def test_forgiven(text: str | bytes, value: object) -> None:
    assert decode(text) == value


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "hello", b"\xff"])
def test_not_forgiven(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        decode(text)


def test_values_on_lines_of_their_own() -> None:
    assert decode_lines('{"a": 1}\n\n{"b": 2}') == [{"a": 1}, {"b": 2}]
    assert decode_lines('{\n"a": 1}') == [{"a": 1}]
    with pytest.raises(ValueError):
        decode_lines('{"a": 1}\nnonsense')


@given(st.text(), st.data())
def test_characters_cut_into_utf16_halves_come_back(text: str, data: st.DataObject) -> None:
    escaped = json.loads(json.dumps(text))  # one code point each
    halves = "".join(
        chr(0xD800 + ((ord(c) - 0x10000) >> 10)) + chr(0xDC00 + ((ord(c) - 0x10000) & 0x3FF)) if ord(c) > 0xFFFF else c
        for c in escaped
    )
    cut = data.draw(st.integers(0, len(halves)))
    joiner = SurrogateJoiner()
    joined = joiner.feed(halves[:cut]) + joiner.feed(halves[cut:]) + joiner.finish()
    assert joined == whole_characters(text)
    joined.encode()


def test_a_lone_half_is_replaced() -> None:
    joiner = SurrogateJoiner()
    assert joiner.feed("a\ud83d") == "a"
    assert joiner.feed("b") == "\ufffdb"
    assert joiner.feed("\ud83d") + joiner.finish() == "\ufffd"
