"""`states_number`: an answer that states a number, and no other one beside those the question gave."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.bench.checks import states_number


@pytest.mark.parametrize(
    "answer",
    [
        "5476",
        "They cost 5,476 euros together.",
        "37 * 148 = 5476",
        "€5476.00.",
        "**5476** euros for 37 boxes at 148 each",
        "1. Multiply 37 by 148.\n2. The result is 5476.",
        '5476 {"name": "multiply", "arguments": {"a": 1, "b": 2}}',
    ],
)
def test_stated(answer: str) -> None:
    assert states_number(answer, 5476, given=(37, 148))


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "37 boxes at 148 euros",
        "5476 or 5477",
        "-5476",
        "54760",
        "15,476",
        "5476.5",
        "5.476",
        "x5476",
        "{{5476}}",
        '{"name": "answer", "arguments": {"value": 5476}}',
        "multiply(a=5476)",
        "1,5476",
        "5476, or is it 6000?",
    ],
)
def test_not_stated(answer: str) -> None:
    assert not states_number(answer, 5476, given=(37, 148))


def test_a_number_that_the_question_does_not_give_is_another_one() -> None:
    assert not states_number("37 boxes cost 5476", 5476)


def test_negative_numbers_and_fractions() -> None:
    assert states_number("It is -3.5 degrees.", -3.5)
    assert states_number("7-3", 7, given=(3,))
    assert not states_number("It is 3.5 degrees.", -3.5)


@given(st.integers(0, 10**12), st.sampled_from(["{}", "{:,}", "It is {}.", "{:,} euros", "({})", "= {}\n"]))
def test_any_whole_number_as_people_write_it(number: int, form: str) -> None:
    assert states_number(form.format(number), number)
    assert not states_number(form.format(number), number + 1)


@given(st.text(max_size=200))
def test_any_text_can_be_read(answer: str) -> None:
    states_number(answer, 5476)
