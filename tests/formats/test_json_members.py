"""Members of a JSON object, values as written."""

from __future__ import annotations

import pytest

from daneel.formats.json_members import members


def test_values_are_as_written() -> None:
    text = ' {"n": 1.50, "s": "a\\n", "o": {"k": [1,2]}, "e": {} }'
    assert members(text) == [("n", "1.50"), ("s", '"a\\n"'), ("o", '{"k": [1,2]}'), ("e", "{}")]
    assert members("{}") == []


@pytest.mark.parametrize("text", ["[1]", "1 ", "", '{"a": }', '{"a": 1', '{"a": 1, "a": 2}'])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="JSON object"):
        members(text)
