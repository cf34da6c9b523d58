"""Families whose calls are `<invoke name="NAME">` blocks, and their relatives."""

from __future__ import annotations

from daneel.formats.family import Family

ROWS: tuple[Family, ...] = ()
