"""Every usual notation of any date and time is found; of any other it is not; and no trick passes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from daneel.bench.checks import states_date, states_time

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def ordinal(day: int) -> str:
    suffix = "th" if 10 <= day <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{suffix}"


def month(d: date) -> str:
    return MONTHS[d.month - 1]


def weekday(d: date) -> str:
    return WEEKDAYS[d.weekday()]


def half(t: time) -> str:
    return "AM" if t.hour < 12 else "PM"


def hour12(t: time) -> int:
    return t.hour % 12 or 12


def part_of_day(t: time) -> str:
    if t.hour < 12:
        return "in the morning"
    return "in the afternoon" if t.hour < 18 else "in the evening"


DATE_NOTATIONS: list[Callable[[date], str]] = [
    lambda d: d.isoformat(),
    lambda d: f"{d:%Y/%m/%d}",
    lambda d: f"{month(d)} {d.day}, {d.year}",
    lambda d: f"{month(d)} {d.day} {d.year}",
    lambda d: f"{month(d).lower()} {d.day}, {d.year}",
    lambda d: f"{month(d)[:3]} {ordinal(d.day)}, {d.year}",
    lambda d: f"{month(d)[:3]}. {d.day}, {d.year}",
    lambda d: f"{d.day} {month(d)} {d.year}",
    lambda d: f"{d.day:02} {month(d)[:3]} {d.year}",
    lambda d: f"the {ordinal(d.day)} of {month(d)}, {d.year}",
    lambda d: f"{month(d)} the {ordinal(d.day)}, {d.year}",
    lambda d: f"{d.day}. {month(d)} {d.year}",
    lambda d: f"{d.day}-{month(d)[:3]}-{d.year}",
    lambda d: f"{weekday(d)}, {month(d)} {d.day}, {d.year}",
    lambda d: f"{weekday(d)[:3]}, {d.day:02} {month(d)[:3]} {d.year}",
    lambda d: f"{weekday(d)[:3]} {month(d)[:3]} {d.day:2} 14:03:27 UTC {d.year}",
    lambda d: f"{month(d)} {ordinal(d.day)} ({d.year})",
    lambda d: f"**{month(d)} {d.day}, {d.year}**",
    lambda d: f"{d:%d.%m.%Y}",
    lambda d: f"{d.day}.{d.month}.{d.year}",
]
EITHER_ORDER: list[Callable[[date], str]] = [
    lambda d: f"{d:%m/%d/%Y}",
    lambda d: f"{d:%d/%m/%Y}",
    lambda d: f"{d.month}/{d.day}/{d.year}",
    lambda d: f"{d:%d-%m-%Y}",
]
TIME_NOTATIONS: list[Callable[[time], str]] = [
    lambda t: f"{t:%H:%M}",
    lambda t: f"{t.hour}:{t.minute:02}",
    lambda t: f"{hour12(t)}:{t.minute:02} {half(t)}",
    lambda t: f"{hour12(t):02}:{t.minute:02}{half(t).lower()}",
    lambda t: f"{hour12(t)}:{t.minute:02} {half(t)[0].lower()}.m.",
    lambda t: f"{hour12(t)}:{t.minute:02}\u202f{half(t)}",
    lambda t: f"{hour12(t)}.{t.minute:02} {half(t).lower()}",
    lambda t: f"{hour12(t)}:{t.minute:02} {part_of_day(t)}",
    lambda t: f"{t.hour:02}h{t.minute:02}",
    lambda t: f"{t:%H:%M} UTC",
    lambda t: f"{t:%H:%M} (UTC+02:00)",
    lambda t: f"**{t:%H:%M}**",
]
TO_THE_SECOND: list[Callable[[time], str]] = [
    lambda t: f"{t:%H:%M:%S}",
    lambda t: f"{hour12(t)}:{t.minute:02}:{t.second:02} {half(t)}",
    lambda t: f"{t:%H:%M:%S}.123456+02:00",
    lambda t: f"{t:%H:%M:%S}Z",
    lambda t: f"{t.hour}h{t.minute:02}m{t.second:02}s",
]
SENTENCES = (
    "The current date is {date} and the time is {time}.",
    "It's {time} on {date}.",
    "{date}, {time}",
    "{time} {date}",
    "1. {date}\n2. {time}",
    "- Date: {date}\n- Time: {time}",
    "Today is {date}, and it is {time}. Is there anything else I can help you with?",
)

dates = st.dates(date(2000, 1, 1), date(2099, 12, 31))
times = st.times().map(lambda t: t.replace(microsecond=0))


@given(dates, times, st.sampled_from(DATE_NOTATIONS + EITHER_ORDER), st.sampled_from(TIME_NOTATIONS + TO_THE_SECOND),
       st.sampled_from(SENTENCES))  # fmt: skip
@example(date(2026, 10, 14), time(0, 3), DATE_NOTATIONS[0], TIME_NOTATIONS[2], SENTENCES[0])
@example(date(2026, 10, 14), time(12, 3), DATE_NOTATIONS[0], TIME_NOTATIONS[2], SENTENCES[0])
def test_every_notation_is_found(d, t, write_date, write_time, sentence):
    if "14:03:27" in write_date(d):
        t = time(14, 3, 27)
    answer = sentence.format(date=write_date(d), time=write_time(t))
    assert states_date(answer, d), answer
    assert states_time(answer, t), answer


@given(dates, dates, times, st.sampled_from(DATE_NOTATIONS), st.sampled_from(SENTENCES))
def test_another_date_is_not_found(d, other, t, write_date, sentence):
    assume(d != other)
    assert not states_date(sentence.format(date=write_date(d), time=f"{t:%H:%M}"), other)


@given(dates, st.integers(1, 800), st.sampled_from(DATE_NOTATIONS))
def test_a_near_date_is_not_found(d, days, write_date):
    assert not states_date(write_date(d), d + timedelta(days))


@given(dates, dates, st.sampled_from(EITHER_ORDER))
def test_either_order_may_only_be_read_with_day_and_month_swapped(d, other, write_date):
    assume((other.year, other.month, other.day) not in {(d.year, d.month, d.day), (d.year, d.day, d.month)})
    assert not states_date(write_date(d), other)


@given(times, times, st.sampled_from(TIME_NOTATIONS), st.sampled_from(SENTENCES))
def test_another_time_is_not_found(t, other, write_time, sentence):
    assume((t.hour, t.minute) != (other.hour, other.minute))
    answer = sentence.format(date="October 14, 2026", time=write_time(t))
    assert not states_time(answer, other), answer


@given(times, st.sampled_from(TIME_NOTATIONS))
def test_the_same_time_in_the_other_half_of_the_day_is_not_found(t, write_time):
    assert not states_time(write_time(t), t.replace(hour=(t.hour + 12) % 24))


@given(times, st.integers(0, 59), st.sampled_from(TO_THE_SECOND))
def test_seconds_need_not_be_said_but_must_be_right(t, second, write_time):
    assert states_time(write_time(t), t.replace(second=second)) == (second == t.second)


@given(st.datetimes(datetime(2000, 1, 1), datetime(2099, 12, 31)), dates, times, st.sampled_from(DATE_NOTATIONS[:15]),
       st.sampled_from(TIME_NOTATIONS + TO_THE_SECOND))  # fmt: skip
def test_stating_another_one_as_well_states_neither(now, d, t, write_date, write_time):
    right = f"It is {now:%Y-%m-%d}, {now:%H:%M}."
    if d != now.date():
        assert not states_date(f"{right} Or {write_date(d)}.", now.date())
    if (t.hour, t.minute) != (now.hour, now.minute):
        assert not states_time(f"{right} Or {write_time(t)}.", now.time())


@given(st.text(max_size=200), dates, times)
def test_any_text_can_be_read(text, d, t):
    assert states_date(text, d) in (True, False)
    assert states_time(text, t) in (True, False)


@given(st.text(alphabet="0123456789 .:/-apmTZh,", max_size=60), dates, times)
def test_any_digits_can_be_read(text, d, t):
    states_date(text, d)
    states_time(text, t)


NOW = datetime(2026, 10, 14, 14, 3, 27)  # a Wednesday


@pytest.mark.parametrize(
    "answer",
    [
        "Wed Oct 14 14:03:27 2026",
        "Wed Oct 14 02:03:27 PM UTC 2026",
        "Wed, 14 Oct 2026 14:03:27 GMT",
        "2026-10-14T14:03:27.913201+02:00",
        "2026-10-14 14:03",
        "2026‑10‑14, 2:03\u202fPM",
        "October 14th, 2026 at 2:03 in the afternoon",
        '{"date": "2026-10-14", "time": "14:03:27"}',
        "```\n2026-10-14\n14:03:27\n```",
        "cur_time: 14:03:27\nmy_date: 2026-10-14",
        "On 10/14/26 it is 2:03pm.",
        "14 Oct '26, 14h03",
        "It is Wednesday. The date is October 14, 2026, the time 14:03 (2:03 PM).",
        "It's 14:03, a bit past 2 PM, on 2026-10-14 (October 14).",
        'I called {"name": "cur_time", "arguments": {}} and learned: 14:03 on 2026-10-14.',
        "It is 14:03 CEST (UTC+2) on 14/10/2026.",
    ],
)
def test_answers_that_state_both(answer):
    assert states_date(answer, NOW.date())
    assert states_time(answer, NOW.time())


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "October 14",
        "the 14th",
        "10/14",
        "October 2026",
        "20261014",
        "id 1202610140",
        "1.2026-10-14",
        "October 14, 2025",
        "2027-10-14",
        "14.10.2025",
        "Tuesday, October 14, 2026",
        "It is Tuesday. The date is 2026-10-14.",
        "Thu Oct 14 2026",
        "2026-10-14 or 2026-10-15",
        "2026-10-14, that is October 15",
        "2026-10-14, that is the 15th of October",
        "October 14, 2026 (2026-02-30)",
        "{{cur_date}}",
        "{{2026-10-14}}",
        '{"name": "cur_date", "arguments": {"date": "2026-10-14"}}',
        '{"name": "cur_date", "arguments": {"date": "2026-10-14"',
        '<tool_call>{"date": "2026-10-14"}</tool_call>',
        '<|tool_call>call:cur_date{date:"2026-10-14"}<tool_call|>',
        'call:cur_date{d:"2026-10-14"}',
        'cur_date(day="2026-10-14")',
        "<tool_response>2026-10-14</tool_response>",
        "I will call cur_date.",
    ],
)
def test_answers_that_do_not_state_the_date(answer):
    assert not states_date(answer, NOW.date())


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "2:03",
        "2:03 AM",
        "02:03 am",
        "14:03 AM",
        "2:03 in the morning",
        "2:03 at night",
        "14:04",
        "14:03:28",
        "14:03 or 15:03",
        "14:03 (5 PM)",
        "2 PM",
        "14",
        "1403",
        "114:03",
        "14:031",
        "0:14:03",
        "10.0.14:03",
        "14:03-15:00",
        "14:03 - 14:30",
        "{{cur_time}}",
        '{"name": "cur_time", "arguments": {"time": "14:03"}}',
        '[{"function": {"name": "cur_time", "arguments": "14:03"}}]',
        'cur_time(now="14:03")',
        "<tool_call>cur_time 14:03",
    ],
)
def test_answers_that_do_not_state_the_time(answer):
    assert not states_time(answer, NOW.time())


def test_hostile_length_is_read_in_linear_time():
    """Would take minutes, and so hit the test's time limit, if any pattern were quadratic with a large factor."""
    for text in ("a." * 50_000, "{{" * 50_000, "{" * 100_000, "1" * 100_000, "14:" * 30_000, " " * 100_000, "f(" * 50_000,
                 "May 1" + " " * 50_000, "<tool_a>" * 12_000):  # fmt: skip
        assert not states_date(text, NOW.date())
        assert not states_time(text, NOW.time())
