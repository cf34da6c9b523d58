"""Detectors, without a loop around them."""

from __future__ import annotations

import pytest

from daneel.harness.detect import MAX_REMEMBERED, RepeatDetector, announced


def count(sequence: str) -> list[int]:
    """Counts for calls named by letters, one per turn."""
    detector = RepeatDetector()
    counts = []
    for letter in sequence:
        detector.start_turn()
        counts.append(detector.seen(letter, {}, "result"))
    return counts


def test_counts_start_afresh_when_something_new_comes() -> None:
    assert count("AAAA") == [1, 2, 3, 4]
    assert count("ABABAB") == [1, 1, 2, 2, 3, 3]
    assert count("AAAB") == [1, 2, 3, 1]
    assert count("AAABA") == [1, 2, 3, 1, 2]


def test_it_remembers_a_bounded_number_of_calls() -> None:
    detector = RepeatDetector()
    for number in range(10 * MAX_REMEMBERED):
        detector.start_turn()
        assert detector.seen("A", {"n": number}, "r") == 1
    assert len(detector.counts) == MAX_REMEMBERED
    detector.start_turn()
    assert detector.seen("A", {"n": number}, "r") == 2


def test_several_same_calls_in_one_turn_count_once() -> None:
    detector = RepeatDetector()
    detector.start_turn()
    assert [detector.seen("A", {}, "r") for _ in range(3)] == [1, 1, 1]
    detector.start_turn()
    assert detector.seen("A", {}, "r") == 2


def test_other_arguments_or_another_result_are_another_call() -> None:
    detector = RepeatDetector()
    detector.start_turn()
    assert [detector.seen("A", {"n": 1}, "r"), detector.seen("A", {"n": 2}, "r"), detector.seen("A", {"n": 1}, "s")] == [
        1,
        1,
        1,
    ]


TOOLS = ["cur_time", "get_current_date", "add", "search", "readFile"]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("I will call cur_time.", ["cur_time"]),
        ("First get_current_date, then cur_time.", ["get_current_date", "cur_time"]),
        ("`cur_time()`", ["cur_time"]),
        ("Let me use the add tool.", ["add"]),
        ("I'll call `add` with 2 and 3", ["add"]),
        ("add(2, 3)", ["add"]),
        ("Using readFile now", ["readFile"]),
        ("I can add that for you.", []),
        ("The search found nothing.", []),
        ("We add and search.", []),
        ("I use it to add numbers.", []),
        ("Next is the add tool.", ["add"]),
        ("I will use the function named add", ["add"]),
        ("my_cur_time is not a tool", []),
        ("cur_times", []),
        ("It is 12:00.", []),
        ("", []),
    ],
)
def test_announced(content: str, names: list[str]) -> None:
    assert announced(content, TOOLS, []) == names


def test_a_tool_that_was_called_is_not_announced() -> None:
    assert announced("I used cur_time and get_current_date.", TOOLS, ["cur_time"]) == ["get_current_date"]
