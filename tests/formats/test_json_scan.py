"""The JSON scanner takes what Python's strict reader takes, in any pieces, and points at what it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.formats.json_scan import JsonScanner, scan_object
from daneel.formats.scan import MAX_DEPTH

PIECES = [*list('{}[]:,"\\ \n\t-+.eE0123'), "true", "null", "NaN", "1.5", "\\u00e9", "\\n", '"a"', '"a":', "é", "\x01"]
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.integers(), st.text()),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
        max_leaves=10,
    ).map(json.dumps),
)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _reference(text: str) -> int | None:
    """Where the JSON container at the start of `text` ends, or `None`."""
    start = len(text) - len(text.lstrip(" \t\n\r"))
    try:
        return json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse).raw_decode(text, start)[1]
    except ValueError:
        return None


@given(text=texts, data=st.data())
def test_as_python_reads_it(text: str, data: st.DataObject) -> None:
    text = f"[{text}]"
    scanner = JsonScanner()
    end = scanner.feed(text, 0)
    assert (end if scanner.done else None) == _reference(text)
    pieces = JsonScanner()
    cut = data.draw(st.integers(0, len(text)))
    for piece in (text[:cut], text[cut:]):
        if pieces.error is None and not pieces.done:
            pieces.feed(piece, 0)
    assert (pieces.offset, pieces.error, pieces.done, pieces.expected) == (
        scanner.offset,
        scanner.error,
        scanner.done,
        scanner.expected,
    )


def test_nesting_has_a_limit() -> None:
    scanner = JsonScanner()
    scanner.feed("[" * (MAX_DEPTH + 1), 0)
    assert scanner.error is not None
    assert (scanner.error.offset, "deeper" in scanner.error.message) == (MAX_DEPTH, True)


@pytest.mark.parametrize(
    ("text", "offset"), [("[]", 0), ('{"a": 1', 7), ("{} x", 2), ('{"a": 1,}', 8), ('{"a": 1, "\\u0061": 2}', 9)]
)
def test_what_is_no_object(text: str, offset: int) -> None:
    problem = scan_object(text)
    assert problem is not None
    assert problem.offset == offset


def test_an_object() -> None:
    assert scan_object(' {"a": [1, {"b": null}]} ') is None
