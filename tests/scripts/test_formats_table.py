"""docs/formats.md says what is so: every family is in it, and written anew it is the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from daneel.formats.registry import FAMILIES

REPO = Path(__file__).resolve().parents[2]
PAGE = REPO / "docs" / "formats.md"


def test_every_family_is_in_the_table_and_nothing_else() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Families")[2].partition("## Templates")[0]
    listed = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert listed == sorted(FAMILIES)


@pytest.mark.exhaustive
def test_the_page_is_what_the_script_writes(shared_dir: Path, tmp_path: Path) -> None:
    script = REPO / "scripts" / "formats_table.py"
    written = tmp_path / "formats.md"
    subprocess.run([sys.executable, script, shared_dir / "templates", "--out", written], check=True, capture_output=True)
    assert written.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
