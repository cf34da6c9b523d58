"""Mistral's families."""

from __future__ import annotations

from daneel.formats.family import Family

ROWS: tuple[Family, ...] = ()
