"""Goals about searching: the file that mentions something; a number that stands in one of the files (held out).

daneel measure examples/goals/search.py --serve qwen2.5-coder-1.5b --trials 5
"""

import re
from pathlib import Path

from plain_files import find_lines

from daneel import Harness, goal
from daneel.bench.end_state import files_of

LETTERS = {
    "anna.txt": "Dear Anna, the garden is full of plums. Come in August.\n",
    "bruno.txt": "Dear Bruno, we walked to the old lighthouse on Sunday.\n",
    "clara.txt": "Dear Clara, the train was late again. The light was red.\n",
    "dora.txt": "Dear Dora, thank you for the jam.\n",
    "numbers.txt": "Anna: 555 0134\nDora: 555 0178\nEmil: 555 0192\n",
    "emil.txt": "Dear Emil, the house needs a new roof.\n",
}

harness = Harness(name="search", tools=[find_lines], max_tokens=256)


def letters(workspace: Path) -> None:
    for name, text in LETTERS.items():
        (workspace / name).write_text(text)


def named(workspace: Path) -> str:
    return "The lighthouse is mentioned in bruno.txt."


def named_two(workspace: Path) -> str:
    return "The lighthouse is mentioned in bruno.txt and clara.txt."


def told(workspace: Path) -> str:
    return "Dora's phone number is 555-0178."


def told_all(workspace: Path) -> str:
    return "The numbers are 555 0134, 555 0178 and 555 0192."


@goal(
    prompt="Which file mentions a lighthouse?",
    setup=letters,
    known_pass=named,
    known_fail=named_two,
    min_turns=2,
)
def lighthouse(trial) -> bool:
    """The answer names that file and no other, and every file is as it was."""
    answer = (trial.answer or "").lower()
    names = [name for name in LETTERS if name in answer]
    files = re.findall(r"\w+\.(?:txt|py|md)\b", answer)
    return names == ["bruno.txt"] and set(files) == {"bruno.txt"} and files_of(trial.workspace) == LETTERS


@goal(
    prompt="What is Dora's phone number?",
    setup=letters,
    known_pass=told,
    known_fail=told_all,
    min_turns=2,
    held_out=True,
)
def phone(trial) -> bool:
    """The answer has that number and no other digits, and every file is as it was."""
    digits = re.sub(r"[^0-9]", "", trial.answer or "")
    return digits == "5550178" and files_of(trial.workspace) == LETTERS
