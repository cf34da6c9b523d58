"""`--format-file`: what a person's file must hold, and what is said when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from daneel.cli.format_file import customiser
from daneel.errors import UserError
from daneel.formats import registry
from daneel.formats.user_format import UserFamily

IMPORT = "from daneel.formats.user_format import *\nfrom daneel.formats.user_format import UserFormat, Content\n"
GOOD = IMPORT + "class Mine(UserFormat):\n    def read(self, text, final):\n        return Content(len(text))\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "my_own.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_files_format_reads_and_the_row_does_the_rest(tmp_path: Path) -> None:
    row = registry.get("gemma4")
    family = customiser(write(tmp_path, GOOD))(row)
    assert isinstance(family, UserFamily)
    assert (family.name, family.stop_markers) == ("my_own", row.stop_markers)
    [event] = family.parser().feed("<|tool_call>")
    assert event.span.kind == "content"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "must hold one class .*UserFormat; it has none"),
        (IMPORT, "it has none"),
        (GOOD + "class Other(Mine):\n    pass\n", "it has Mine, Other"),
        (IMPORT + "class Mine(UserFormat):\n    pass\n", r"Mine needs a method read\(self, text, final\)"),
        ("def (", "line 1: syntax error"),
        ("\n1/0", "line 2: ZeroDivisionError"),
    ],
)
def test_a_file_that_holds_none(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError, match=rf"my_own\.py.*{words}"):
        customiser(write(tmp_path, text))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        customiser(tmp_path / "none.py")
    with pytest.raises(UserError, match="is a folder"):
        customiser(tmp_path)


def test_a_failure_is_told_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, IMPORT + "class Mine(UserFormat):\n    def read(self, text, final):\n        return 5\n")
    customiser(path)(registry.get("generic")).parser().feed("x")
    assert "read() gave 5" in capsys.readouterr().err
