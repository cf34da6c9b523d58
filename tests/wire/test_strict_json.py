from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.wire.errors import BadRequest
from daneel.wire.strict_json import MAX_DEPTH, decode_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.booleans())
def test_proper_json_is_read(value: dict[str, object], escape: bool) -> None:
    try:
        body = json.dumps(value, ensure_ascii=escape).encode()
    except UnicodeEncodeError:
        return
    if escape and not _is_text(value):
        with pytest.raises(BadRequest, match="surrogate"):
            decode_object(body)
        return
    assert decode_object(body) == value


def _is_text(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        value = decode_object(body)
    except BadRequest:
        return
    assert json.loads(body) == value


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"[]", "object, not an array"),
        (b"null", "object, not null"),
        (b'"x"', "object, not a string"),
        (b'{"a": 1', "not JSON: .* line 1, column 8"),
        (b'{"a": 1} x', "not JSON: Extra data"),
        (b'{"a": "\x01"}', "not JSON"),
        (b'{"a": NaN}', "holds NaN"),
        (b'{"a": [-Infinity]}', "holds -Infinity"),
        (b'{"a": 1e400}', "1e400 is out of range"),
        (b'{"a": 1, "b": 2, "a": 3}', 'key "a" stands twice'),
        (b'{"x": [{"deep": 1, "deep": 1}]}', 'key "deep" stands twice'),
        (b'{"a": "\xff"}', "not UTF-8: byte 0xff at offset 7"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b'{"a": [{"b": "x\\ud800y"}]}', r"a\[0\].b holds half of a surrogate pair \(\\ud800\)"),
        (b'{"\\udfff": 1}', "half of a surrogate pair"),
        (b'{"a": ' + b"1" * 5000 + b"}", "limit"),
        (b"[" * 200_000, "deeper than 100"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "deeper than 100"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "deeper than 100"),
    ],
)
def test_refused(body: bytes, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        decode_object(body)


def test_whole_surrogate_pairs_and_usual_depth_are_fine() -> None:
    assert decode_object(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}
    deep = b'{"a": ' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}"
    assert decode_object(deep)
