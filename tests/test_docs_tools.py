"""What `docs/tools.md` shows works as it stands there, and names every parameter that there is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from daneel import tool
from daneel.harness.files import load
from daneel.harness.tools.examples import check_tools
from tests.support.scripted_server import calls, text
from tests.support.stage import Stage

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "tools.md").read_text(encoding="utf-8")


def test_the_snippet(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
    path = tmp_path / "notes.py"
    path.write_text(snippet, encoding="utf-8")
    harness = load(path).harness()
    assert [found.problem for found in check_tools(harness.tools)] == [None]
    script = [
        calls(("read_note", {"name": "coffee"})),
        calls(("read_note", {"name": "tea"})),
        calls(("write_note", {"name": "tea", "text": "Free."})),
        text("Done."),
    ]
    with Stage() as stage:
        run, _ = stage.play(script, harness)
    said = [call.result for call in run.calls]
    assert said == [
        "Error: There is no note coffee. The notes are: tea.",
        "Tea costs 5.",
        "The note tea now has 5 characters.",
    ]
    assert run.calls[2].returned == "5"


def test_every_parameter_is_named() -> None:
    parameters = set(inspect.signature(tool).parameters) - {"function", "name", "description"}
    assert parameters <= set(re.findall(r"`(\w+)`", PAGE))
