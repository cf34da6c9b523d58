"""Families whose calls are `<function=NAME>` with a `<parameter=KEY>` for each argument."""

from __future__ import annotations

from daneel.formats.family import Family

ROWS: tuple[Family, ...] = ()
