"""DeepSeek's families whose calls are JSON behind a name."""

from __future__ import annotations

from daneel.formats.family import Family

ROWS: tuple[Family, ...] = ()
