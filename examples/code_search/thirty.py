"""Thirty tools, five questions about a small project, and what `daneel diagnose` makes of it.

daneel measure examples/code_search/thirty.py --harness thirty --serve qwen2.5-coder-1.5b --trials 10
daneel diagnose MEASUREMENT

Planted in `thirty`, and so to be found:
- overlap: find_text and grep_code, show_file and print_source, list_modules and project_tree;
- succession: code_at after locate_definition, show_test after list_tests;
- a retry: find_constant_file finds nothing, constant_value finds it;
- 17 tools that none of these questions needs.
`pruned` is what one would make of it by hand: one tool of each pair, each succession merged. `bare` can only search and read.
"""

import shutil
from pathlib import Path

from code_tools import ALL, constant_value, find_text, list_modules, one_definition, segment, show_file, who_calls

from daneel import Harness, goal, tool
from daneel.bench.checks import states_number
from daneel.bench.end_state import files_of
from daneel.bench.known import run_of

PROJECT = Path(__file__).parent / "project"


@tool
def definition_of(name: str) -> str:
    """Show a function, class or test, and say which file it is in"""
    path, node = one_definition(name)
    return f"{path}:\n{segment(path, node)}"


thirty = Harness(
    tools=ALL,
    system="You answer questions about a Python project. Use the tools to look.",
    max_tokens=256,
)
pruned = thirty.with_changes(tools=[find_text, show_file, list_modules, definition_of, constant_value, who_calls])
bare = thirty.with_changes(tools=[find_text, show_file])


def project(workspace: Path) -> None:
    for file in PROJECT.glob("*.py"):
        shutil.copyfile(file, workspace / file.name)


def intact(workspace: Path | None) -> bool:
    return files_of(workspace) == {path: text for path, text in files_of(PROJECT).items() if "/" not in path}


def says(trial, word: str, *, but_not: tuple[str, ...]) -> bool:
    """The answer has the word and none of those that would be just as easy to guess, after at least one good look."""
    answer = (trial.answer or "").lower()
    looked = any(call.result and not call.error for call in trial.calls)
    return looked and intact(trial.workspace) and word in answer and not any(other in answer for other in but_not)


def looked(answer: str, name: str, arguments: dict, result: str):
    return lambda workspace: run_of(answer, calls=[(name, arguments, result)])


WHERE = "locate_definition", {"name": "may_join"}, "readers.py:17"
LIMIT = "constant_value", {"name": "MAX_LOANS"}, "MAX_LOANS = 6"
CALLERS = "who_calls", {"name": "late_fee"}, "take_back\ntest_in_time\ntest_never_above_the_limit"
RENEW = "code_at", {"location": "loans.py:26"}, "def renew(num_renewals: int) -> int:\n    …\n        raise AlreadyRenewed"
TESTS = "list_tests", {}, "test_in_time\ntest_never_above_the_limit\ntest_first_renewal\ntest_second_renewal_is_refused"


@goal(
    prompt="In which file is the function may_join defined?",
    setup=project,
    known_pass=looked("It is in readers.py.", *WHERE),
    known_fail=looked("It is in readers.py or in loans.py.", *WHERE),
    min_turns=2,
)
def where(trial) -> bool:
    return says(trial, "readers.py", but_not=("loans.py", "catalog.py", "fees.py", "letters.py"))


@goal(
    prompt="What is the value of MAX_LOANS?",
    setup=project,
    known_pass=looked("MAX_LOANS is 6.", *LIMIT),
    known_fail=lambda workspace: "MAX_LOANS is 6.",
    min_turns=2,
)
def limit(trial) -> bool:
    return says(trial, "6", but_not=()) and states_number(trial.answer, 6)


@goal(
    prompt="Which function, apart from tests, calls late_fee?",
    setup=project,
    known_pass=looked("It is called by take_back.", *CALLERS),
    known_fail=looked("It is called by lend and take_back.", *CALLERS),
    min_turns=2,
)
def callers(trial) -> bool:
    return says(trial, "take_back", but_not=("lend", "renew(", "reminder"))


@goal(
    prompt="Which exception does the function renew raise?",
    setup=project,
    known_pass=looked("It raises AlreadyRenewed.", *RENEW),
    known_fail=looked("It raises ValueError.", *RENEW),
    min_turns=2,
    held_out=True,
)
def raises(trial) -> bool:
    return says(trial, "alreadyrenewed", but_not=("toomanyloans", "valueerror", "keyerror"))


@goal(
    prompt="What is the name of the test that checks that a second renewal is refused?",
    setup=project,
    known_pass=looked("test_second_renewal_is_refused", *TESTS),
    known_fail=looked("test_first_renewal and test_second_renewal_is_refused", *TESTS),
    min_turns=2,
    held_out=True,
)
def which_test(trial) -> bool:
    return says(trial, "test_second_renewal_is_refused", but_not=("test_first_renewal", "test_in_time"))
