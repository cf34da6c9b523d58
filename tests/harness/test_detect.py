"""Detectors, without a loop around them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.harness.detect import Detectors
from daneel.harness.detectors.announced import announced
from daneel.harness.detectors.base import Firing, Seen
from daneel.harness.detectors.no_progress import NoProgress
from daneel.harness.detectors.repeated_call import MAX_REMEMBERED, RepeatedCall
from daneel.harness.detectors.repeating_text import BOUNDS, Kind, RepetitionWatch, find_repetition
from daneel.harness.policy import Recovery

POLICY = Recovery()


def call(name: str, n: int = 0, result: str = "result", **more: bool) -> Seen:
    return Seen(name, {"n": n}, result, **more)


def count(sequence: str) -> list[int]:
    """Counts for calls named by letters, one per turn."""
    detector = RepeatedCall(POLICY)
    return [detector.counted([call(letter)])[0] for letter in sequence]


def fired(detector: Detectors | RepeatedCall | NoProgress, turns: list[list[Seen]]) -> list[tuple[str, str, int]]:
    """Detector, grade and turn of every firing."""
    return [(f.detector, f.grade, n) for n, turn in enumerate(turns, 1) for f in detector.turn(turn)]


def test_counts_start_afresh_when_something_new_comes() -> None:
    assert count("AAAA") == [1, 2, 3, 4]
    assert count("ABABAB") == [1, 1, 1, 2, 2, 3]
    assert count("AAAB") == [1, 2, 3, 1]
    assert count("AAABA") == [1, 2, 3, 1, 1]


def test_it_remembers_a_bounded_number_of_calls() -> None:
    detector = RepeatedCall(POLICY)
    for number in range(10 * MAX_REMEMBERED):
        assert detector.counted([call("A", number)]) == [1]
    assert len(detector._counts) == MAX_REMEMBERED
    assert detector.counted([call("A", number)]) == [2]


def test_several_same_calls_in_one_turn_count_once() -> None:
    detector = RepeatedCall(POLICY)
    assert detector.counted([call("A")] * 3) == [1, 1, 1]
    assert detector.counted([call("A")]) == [2]


def test_other_arguments_or_another_result_are_another_call() -> None:
    detector = RepeatedCall(POLICY)
    assert detector.counted([call("A", 1), call("A", 2), call("A", 1, "s")]) == [1, 1, 1]


def test_grades_of_a_repeated_call() -> None:
    assert fired(RepeatedCall(POLICY), [[call("A")]] * 4) == [
        ("repeated_call", "note", 2),
        ("repeated_call", "note", 3),
        ("repeated_call", "hide", 3),
        ("repeated_call", "note", 4),
        ("repeated_call", "stop", 4),
    ]


def test_calls_in_turn_are_a_cycle() -> None:
    found = fired(RepeatedCall(POLICY), [[call(letter)] for letter in "ABABABABAB"])
    assert {name for name, _, _ in found} == {"cycle"}
    assert next(turn for _, grade, turn in found if grade == "stop") == 8


def test_a_tool_that_may_repeat_never_fires() -> None:
    assert fired(Detectors(POLICY), [[call("A", may_repeat=True)]] * 50) == []


def test_a_call_that_was_refused_counts_as_the_same_once_more() -> None:
    turns = [[call("A")], [call("A")], [call("A")], [call("A", was_made=False)]]
    assert fired(RepeatedCall(POLICY), turns)[-1] == ("repeated_call", "stop", 4)
    assert fired(RepeatedCall(POLICY), [[call("A", was_made=False)]] * 9) == []


def test_no_progress_is_found_where_the_result_changes() -> None:
    ticking = [[call("clock", result=str(n))] for n in range(20)]
    assert fired(Detectors(POLICY), ticking) == [
        ("no_progress", "note", 9),
        ("no_progress", "hide", 13),
        ("no_progress", "stop", 17),
    ]


def test_no_progress_is_found_where_every_call_is_wrong() -> None:
    wrong = [[call("open", n, "no such file", is_error=True)] for n in range(20)]
    assert fired(NoProgress(POLICY), wrong)[0] == ("no_progress", "note", 8)


def test_work_is_progress() -> None:
    """Edit and test, again and again with the same outcome: every edit is new."""
    turns = [[call("edit", n)] if n % 2 else [call("test", 0, "1 failed")] for n in range(100)]
    assert fired(Detectors(POLICY), turns) == []


def test_a_new_call_among_old_ones_is_progress() -> None:
    turns = [[call("look", 0), call("look", n)] for n in range(1, 50)]
    assert not [found for found in fired(Detectors(POLICY), turns) if found[1] != "note"]


@given(st.lists(st.lists(st.sampled_from("ABC"), min_size=1, max_size=3), max_size=30))
def test_a_stop_has_a_reason(turns: list[list[str]]) -> None:
    """No run is ended before some call was seen as often as it takes."""
    detector = RepeatedCall(POLICY)
    for number, letters in enumerate(turns):
        stops = [f for f in detector.turn([call(letter) for letter in letters]) if f.grade == "stop"]
        if stops:
            seen = [sum(letter in turn for turn in turns[: number + 1]) for letter in letters]
            assert min(seen) >= POLICY.repeat_stop_at
            assert isinstance(stops[0], Firing)
            assert stops[0].detail


# --- text that repeats itself

LINE = "I will now call the tool and see what it says. "


def streamed(text: str, size: int, kind: Kind) -> tuple[int, str] | None:
    watch = RepetitionWatch(kind)
    for start in range(0, len(text), size):
        found = watch.feed(text[start : start + size])
        if found is not None:
            return min(start + size, len(text)), text[: found.keep]
    return None


@pytest.mark.parametrize("kind", ["reasoning", "content"])
@pytest.mark.parametrize("size", [1, 4, 33, 100_000])
@pytest.mark.parametrize("unit", ["\n", "a b ", LINE, "x" * 300 + "y" * 300])
def test_one_unit_over_and_over_is_found_early_and_the_beginning_kept(unit: str, size: int, kind: Kind) -> None:
    text = "Let me see. " + unit * (20_000 // len(unit))
    found = streamed(text, size, kind)
    assert found is not None
    assert size > 1000 or found[0] < max(2 * BOUNDS[kind].chars, 10 * len(unit))
    assert found[1].startswith("Let me see.")
    assert len(found[1]) <= 12 + 2 * len(unit) + 12
    whole = find_repetition(text, kind)
    assert whole is not None
    assert whole.times >= BOUNDS[kind].times


def test_a_sentence_that_comes_back_among_others_is_found_in_thoughts() -> None:
    text = "First. " + "".join(f"Now the number {n}. Wait, let me check that again. " for n in range(40))
    found = find_repetition(text, "reasoning")
    assert found is not None
    assert found.unit == "wait, let me check that again."
    assert text[: found.keep].rstrip().endswith("check that again.")
    assert find_repetition(text, "content") is None


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{n}. Item number {n} is here.\n" for n in range(300)),
        "| a | b |\n|---|---|\n" + "".join(f"| {n} | {n * n} |\n" for n in range(300)),
        "\n".join("0 " * 16 for _ in range(16)),
        "".join(f"    if x == {n}:\n        return None\n" for n in range(100)),
        "ACGT" * 50,
        "-" * 200,
        "",
    ],
)
def test_lists_tables_grids_and_code_are_left_alone(text: str) -> None:
    assert find_repetition(text, "content") is None


def test_going_through_a_list_in_thoughts_is_no_repetition() -> None:
    text = "".join(f"Check {n}: {n} mod 7 is {n % 7}, so it is not divisible. " for n in range(100))
    assert find_repetition(text, "reasoning") is None


@given(st.text(alphabet="ab .\n", max_size=3000), st.integers(1, 500))
def test_whatever_the_text_the_kept_part_is_its_beginning(text: str, size: int) -> None:
    watch = RepetitionWatch("reasoning")
    for start in range(0, len(text), size):
        found = watch.feed(text[start : start + size])
        if found is not None:
            assert 0 <= found.keep <= min(len(text), start + size)
            break


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
        ("I can use cur_time for that.", ["cur_time"]),
        ("I don't need cur_time. I will call get_current_date.", ["get_current_date"]),
        ("cur_time is not needed. Then cur_time is called.", ["cur_time"]),
        ("The available tools are cur_time and add.", []),
        ("I have access to the following:\n- cur_time", ["cur_time"]),
        ("I cannot call cur_time.", []),
        ("", []),
    ],
)
def test_announced(content: str, names: list[str]) -> None:
    assert announced(content, TOOLS, []) == names


def test_a_tool_that_was_called_is_not_announced() -> None:
    assert announced("Now cur_time and get_current_date.", TOOLS, ["cur_time"]) == ["get_current_date"]


@pytest.mark.parametrize(
    "answer",
    ["I used cur_time for it.", "I could also use get_current_date.", "If you want the date, get_current_date has it."],
)
def test_an_answer_that_speaks_of_another_tool_announces_nothing(answer: str) -> None:
    assert announced(f"It is 12:00. {answer}", TOOLS, ["cur_time"]) == []
