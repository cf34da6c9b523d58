"""The harness file of docs/measuring.md loads, and its goal is sound."""

from __future__ import annotations

import re
from pathlib import Path

from daneel.bench.goal_check import require_sound_goals
from daneel.bench.sources import gather

PAGE = Path(__file__).resolve().parent.parent / "docs" / "measuring.md"


def test_the_example_is_a_harness_file_with_a_sound_goal(tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "file_agent.py"
    file.write_text(source)
    sources = gather([file])
    (goal,) = sources.goals
    assert (goal.name, goal.min_turns, goal.held_out) == ("copied", 3, False)
    require_sound_goals(sources.goals)
