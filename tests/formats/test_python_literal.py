"""Python literals become JSON text; nothing else does."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.formats.python_literal import literal_as_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_repr_comes_back(value: Any) -> None:
    text = literal_as_json(repr(value))
    assert text is not None
    assert json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'a\n\t\x41\u00e9\'\d\101'", "a\n\tAé'\\dA"),
        (r'["😀"]', ["😀"]),
        ("{'a': true, \"b\": None,}", {"a": True, "b": None}),
        (" [ ] ", []),
        ("{}", {}),
        ("-1.5e3", -1500.0),
    ],
)
def test_read(text: str, value: Any) -> None:
    got = literal_as_json(text)
    assert got is not None
    assert json.loads(got) == value


@pytest.mark.parametrize(
    "text",
    ["", "a", "[1", "[,1]", "[1 2]", "{'a'}", "{'a': 1 'b': 2}", "{,}", "{'a': 1, 'a': 2}", "{1: 2}", "[1]]", "1 2", "(1, 2)",
     "'a", r"'\ud800'", "__import__('os')", "Truely", "{'a': }", "[1}", "5x", "]", ",", ":", "[" * 500 + "]" * 500],
)  # fmt: skip
def test_not_read(text: str) -> None:
    assert literal_as_json(text) is None


@given(st.text(alphabet="[]{},:'\"\\ 0a1.-eTrueNone\n"))
def test_what_is_read_means_what_python_means(text: str) -> None:
    got = literal_as_json(text)
    if got is None:
        return
    assert json.loads(got) == ast.literal_eval(text.strip().replace("true", "True"))
