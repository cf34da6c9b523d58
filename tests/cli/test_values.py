"""Values on the command line."""

from __future__ import annotations

import pytest

from daneel.cli.values import byte_size
from daneel.errors import UserError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000", 1000),
        ("2GiB", 2 * 2**30),
        ("1.5 MiB", 3 * 2**19),
        ("1k", 1024),
        ("1kB", 1000),
        ("3B", 3),
        ("1TB", 10**12),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert byte_size("--x", text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1.GiB", "2 bananas", "1e9", "∞"])
def test_what_is_no_size_is_said(text: str) -> None:
    with pytest.raises(UserError, match=r"--x is .* must be a size"):
        byte_size("--x", text)
