"""Families whose calls are JSON without markers, or nearly so."""

from __future__ import annotations

from daneel.formats.family import Family

ROWS: tuple[Family, ...] = ()
