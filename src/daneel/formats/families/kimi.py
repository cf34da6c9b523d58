"""Moonshot's Kimi, and its relatives: JSON behind an identifier."""

from __future__ import annotations

from daneel.formats.family import Family

ROWS: tuple[Family, ...] = ()
