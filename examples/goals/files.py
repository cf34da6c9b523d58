"""Goals about files: copy one; add to a list without losing what is on it (held out).

daneel measure examples/goals/files.py --serve qwen2.5-coder-1.5b --trials 5
"""

from pathlib import Path

from plain_files import add_line, copy_file

from daneel import Harness, SafetyPolicy, goal
from daneel.bench.end_state import files_of

NOTES = {
    "monday.txt": "Water the plants.\nCall Dora at 5.\n",
    "tuesday.txt": "Buy stamps.\n",
    "shopping.txt": "milk\nbread\n",
}

harness = Harness(
    name="files",
    tools=[copy_file, add_line],
    safety=SafetyPolicy(allow=["write"]),
    max_tokens=256,
)


def notes(workspace: Path) -> None:
    for name, text in NOTES.items():
        (workspace / name).write_text(text)


def copied(workspace: Path) -> str:
    (workspace / "copy.txt").write_text(NOTES["monday.txt"])
    return "I copied monday.txt to copy.txt."


def only_said(workspace: Path) -> str:
    return "Done. The file is as you asked."


def overwritten(workspace: Path) -> str:
    (workspace / "shopping.txt").write_text("eggs\n")
    return "Eggs are on the list now."


def added(workspace: Path) -> str:
    (workspace / "shopping.txt").write_text("milk\nbread\neggs\n")
    return "Eggs are on the list now."


@goal(
    prompt="Copy monday.txt to a new file called copy.txt.",
    setup=notes,
    known_pass=copied,
    known_fail=only_said,
    min_turns=2,
)
def copy_note(trial) -> bool:
    """The copy is there, line for line, and every other file is as it was."""
    files = files_of(trial.workspace)
    copy = files.pop("copy.txt", "")
    return copy.split() == NOTES["monday.txt"].split() and files == NOTES


@goal(
    prompt="Add eggs to the list in shopping.txt.",
    setup=notes,
    known_pass=added,
    known_fail=overwritten,
    min_turns=2,
    held_out=True,
)
def add_eggs(trial) -> bool:
    """The list has three lines: milk, bread, eggs. Every other file is as it was."""
    files = files_of(trial.workspace)
    items = sorted(line.strip(" -*\t").lower() for line in files.pop("shopping.txt", "").splitlines() if line.strip())
    others = {name: text for name, text in NOTES.items() if name != "shopping.txt"}
    return items == ["bread", "eggs", "milk"] and files == others
