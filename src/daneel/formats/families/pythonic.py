"""Families whose calls are written as Python calls."""

from __future__ import annotations

from daneel.formats.family import Family

ROWS: tuple[Family, ...] = ()
