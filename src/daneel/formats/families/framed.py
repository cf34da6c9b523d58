"""Families whose output is a sequence of framed messages."""

from __future__ import annotations

from daneel.formats.family import Family

ROWS: tuple[Family, ...] = ()
