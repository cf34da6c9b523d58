"""Families whose arguments are pairs of tags, a key and a value."""

from __future__ import annotations

from daneel.formats.family import Family

ROWS: tuple[Family, ...] = ()
