"""Goals about searching: find the file that mentions something and delete it; find a number and write it down (held out).

daneel measure examples/goals/search.py --serve qwen2.5-coder-1.5b --trials 5
"""

import re
from pathlib import Path

from daneel import Harness, SafetyPolicy, ToolFailure, goal, tool
from daneel.bench.end_state import files_of
from daneel.harness.safety.paths import parts_of
from daneel.tools import read_file, write_file

LETTERS = {
    "anna.txt": "Dear Anna, the garden is full of plums. Come in August.\n",
    "bruno.txt": "Dear Bruno, we walked to the old lighthouse on Sunday.\n",
    "clara.txt": "Dear Clara, the train was late again. The light was red.\n",
    "dora.txt": "Dear Dora, thank you for the jam.\n",
    "numbers.txt": "Anna: 555 0134\nDora: 555 0178\nEmil: 555 0192\n",
    "emil.txt": "Dear Emil, the house needs a new roof.\n",
}


@tool
def find_lines(text: str) -> str:
    """Find the lines that hold a text, in all files"""
    if not text.strip():
        raise ToolFailure("The text to look for is empty.")
    wanted, files = text.strip().lower(), files_of(Path.cwd())
    lines = [f"{name}: {line}" for name, held in files.items() for line in held.splitlines() if wanted in line.lower()]
    return "\n".join(lines[:20]) or "No line holds that text. Try another word."


# both are hidden until something was looked for: small models plan all their calls at once, and then delete a file they made up
@tool(effects=["write"], requires="find_lines")
def delete_file(path: str) -> str:
    """Delete a file"""
    file = Path.cwd().joinpath(*parts_of(path))
    if file.is_symlink() or not file.is_file() or not file.resolve().is_relative_to(Path.cwd().resolve()):
        raise ToolFailure(f"There is no file {path}. Use find_lines to find the right one.")
    file.unlink()
    return f"Deleted {path}."


harness = Harness(
    name="search",
    tools=[find_lines, read_file("."), write_file(".").with_changes(requires="find_lines"), delete_file],
    safety=SafetyPolicy(allow=["write"]),
    max_tokens=512,
)


def letters(workspace: Path) -> None:
    for name, text in LETTERS.items():
        (workspace / name).write_text(text)


def deleted(workspace: Path) -> str:
    (workspace / "bruno.txt").unlink()
    return "I deleted bruno.txt."


def deleted_two(workspace: Path) -> str:
    (workspace / "clara.txt").unlink()
    return deleted(workspace)


def written(workspace: Path) -> str:
    (workspace / "phone.txt").write_text("555 0178\n")
    return "Dora's number is in phone.txt."


def written_wrong(workspace: Path) -> str:
    (workspace / "phone.txt").write_text(LETTERS["numbers.txt"])
    return "Dora's number is in phone.txt."


@goal(
    prompt="One of the files mentions a lighthouse. Find it and delete that file.",
    setup=letters,
    known_pass=deleted,
    known_fail=deleted_two,
    min_turns=3,
)
def delete_lighthouse(trial) -> bool:
    """That file is gone, and every other one is as it was."""
    return files_of(trial.workspace) == {name: text for name, text in LETTERS.items() if name != "bruno.txt"}


@goal(
    prompt="Find Dora's phone number and write it into a new file called phone.txt.",
    setup=letters,
    known_pass=written,
    known_fail=written_wrong,
    min_turns=3,
    held_out=True,
)
def phone(trial) -> bool:
    """The file holds that number and no other digits, and every other file is as it was."""
    files = files_of(trial.workspace)
    digits = re.sub(r"[^0-9]", "", files.pop("phone.txt", ""))
    return digits == "5550178" and files == LETTERS
