"""`daneel init`: a starter harness file, with a tool and a goal."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from daneel.errors import UserError

FILE_NAME = "harness.py"

STARTER = '''\
"""A first harness: what the model may do, and a goal to measure it by."""

from daneel import Harness, goal, tool


@tool
def count_letter(word: str, letter: str) -> int:
    """Count how often a letter occurs in a word.

    Args:
        word: the word to look at
        letter: the one letter to count
    """
    return word.lower().count(letter.lower())


harness = Harness(tools=[count_letter], system=None, max_turns=8)


@goal(prompt="How many times does the letter r occur in the word strawberry?")
def letters(trial) -> bool:
    """The model asked the tool, and its answer says what the tool said."""
    counted = any(call.name == "count_letter" and call.result == "3" for call in trial.calls)
    answer = (trial.answer or "").lower()
    return counted and ("3" in answer or "three" in answer)
'''


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("init")
    def _init(folder: Path = typer.Argument(Path(), metavar="[DIR]", help="Where to write it; made if missing.")) -> None:
        """Write a starter harness.py with a tool and a goal. Never overwrites a file."""
        path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(STARTER)
        except FileExistsError as error:
            raise UserError(f"{error.filename or path} exists already; it was left as it is") from error
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from error
        quoted = shlex.quote(str(path))
        print(f"Wrote {path}. Try:\n")
        print(f"  daneel run {quoted} --goal letters --serve smollm2-135m")
        print(f"  daneel measure {quoted} --serve smollm2-135m")
