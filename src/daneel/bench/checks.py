"""Readers that a goal's check can rely on: does an answer state this date, this time, this number?

An answer *states* a date or a time when at least one complete reading of it agrees, and no reading disagrees. So "14:03 or
15:03" states neither, and so do digits by accident, a template (`{{cur_time}}`) and the text of a call: the last two are
blanked before the answer is read. Of numbers the same holds, but those that the question gave may be repeated.

Read are numbers and English names of months and weekdays. A clock time without am or pm is on the 24-hour clock. Not read
are times in words ("a quarter past two"), relative dates ("tomorrow") and negation ("it is not 14:03").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, time


def states_date(answer: str, when: date) -> bool:
    """Whether `answer` states the date `when`, year included, and no other date or weekday."""
    text = _as_said(answer)
    readings = list(_dates(text))
    return (
        any(reading.complete and reading.agrees(when) for reading in readings)
        and all(reading.agrees(when) for reading in readings)
        and all(day == when.weekday() for day in _weekdays(text))
    )


def states_time(answer: str, when: time) -> bool:
    """Whether `answer` states the time `when` to the minute, and no other time. Seconds need not be said, but must be right."""
    readings = list(_times(_as_said(answer)))
    return any(reading.states(when) for reading in readings) and all(reading.agrees(when) for reading in readings)


def states_number(answer: str, number: float, *, given: Collection[float] = ()) -> bool:
    """Whether `answer` states `number`, and no other number but those `given`, which it may repeat.

    Read are digits, with commas between thousands and a point before decimals. Numbers of list items ("1. First")
    are passed over; numbers in words are not read.
    """
    text = _LIST_NUMBER.sub(" ", _as_said(answer))
    found = [float(match.group().replace(",", "")) for match in _NUMBER.finditer(text)]
    return number in found and all(each == number or each in given for each in found)


_LIST_NUMBER = re.compile(r"^\s*[0-9]{1,2}[.)]\s", re.MULTILINE)
_NUMBER = re.compile(
    r"(?:(?<![\w.,-])-)?(?<![0-9A-Za-z_])(?<![0-9][.,])"  # a minus sign, if it is none between two numbers; no part of a word
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?"
)


# --- what is not said but written for a machine ---------------------------------------------------------------------------

_CALL_KEY = re.compile(r"""["']?(?:name|function|tool|tool_name|tool_calls?|arguments|parameters|args)["']?\s*:""")
_NAME_BEFORE = re.compile(r"[A-Za-z_][\w.]{0,63}\Z")
_NOT_SAID = (
    re.compile(r"\{\{[^{}]{0,200}\}\}"),  # a template
    re.compile(r"<\|?(tool_\w+|function)\b[^>]*>.*?(?:</\1>|<\1\|>|\Z)", re.DOTALL),  # a call between markers
    re.compile(r"""\b[A-Za-z_][\w.]{0,63}\((?=[^()]*["'=])[^()]*\)"""),  # name(argument="...")
)
_AS_PLAIN = str.maketrans({"‐": "-", "‑": "-", "−": "-", "’": "'", "*": "", "`": ""})


def _as_said(answer: str) -> str:
    """`answer` in plain characters, without Markdown emphasis; templates and calls are blanked."""
    text = unicodedata.normalize("NFKC", answer.translate(_AS_PLAIN)).translate(_AS_PLAIN).replace("__", "")
    for pattern in _NOT_SAID:
        text = pattern.sub(" ; ", text)
    return _without_call_objects(text)


def _without_call_objects(text: str) -> str:
    """Blank outermost `{...}` that look like calls: with a call's keys, or right behind a name. Unclosed: to the end."""
    kept, start, depth = [], 0, 0
    for index, char in enumerate(text):
        if char == "{":
            if depth == 0:
                kept.append(text[start:index])
                start = index
            depth += 1
        elif char == "}" and depth:
            depth -= 1
            if depth == 0:
                kept.append(_unless_call(text[start : index + 1], before=kept[-1]))
                start = index + 1
    kept.append(_unless_call(text[start:], before=kept[-1]) if depth else text[start:])
    return "".join(kept)


def _unless_call(group: str, *, before: str) -> str:
    return " ; " if _CALL_KEY.search(group) or _NAME_BEFORE.search(before[-80:]) else group


# --- dates ----------------------------------------------------------------------------------------------------------------

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_MONTH = (
    r"\b(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY_FIRST = r"(?<![0-9A-Za-z:])(?<![0-9][.,/-])(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?\b"
_DAY_SECOND = r"(?:the\s+)?(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?\b(?!:[0-9])"
_TO_YEAR = r"(?:\s*,\s*|\s*\(|\s+)(?:(?:of|in)\s+)?(?:the\s+year\s+)?"
_YEAR = r"(?P<year>[0-9]{4}|'[0-9]{2})(?![0-9:])"
_ALONE_BEFORE = r"(?<![0-9A-Za-z_])(?<![0-9][./:-])"
_ALONE_AFTER = r"(?![0-9_]|(?!T[0-9])[A-Za-z]|[./:-][0-9])"
_CLOCK_BEFORE_YEAR = r"(?:at\s+)?[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:\s?[ap]m)?(?:\s+[A-Z]{2,5}|\s+[+-][0-9]{4})?"

_DATES = tuple(  # each is looked for in what the ones before it left; those with a year come first
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_ALONE_BEFORE}(?P<year>[0-9]{{4}})(?P<sep>[./-])(?P<month>[0-9]{{1,2}})(?P=sep)(?P<day>[0-9]{{1,2}}){_ALONE_AFTER}",
        rf"{_ALONE_BEFORE}(?P<a>[0-9]{{1,2}})(?P<sep>[./-])(?P<b>[0-9]{{1,2}})(?P=sep)(?P<c>[0-9]{{4}}|[0-9]{{2}}){_ALONE_AFTER}",
        rf"{_DAY_FIRST}-{_MONTH}-(?P<year>[0-9]{{4}}|[0-9]{{2}})\b",
        rf"{_MONTH}-{_DAY_SECOND}-(?P<year>[0-9]{{4}})\b",
        rf"{_MONTH}\s+{_DAY_SECOND}{_TO_YEAR}{_YEAR}",
        rf"{_DAY_FIRST}\.?\s+(?:of\s+)?{_MONTH}{_TO_YEAR}{_YEAR}",
        rf"{_MONTH}\s+{_DAY_SECOND},?\s+{_CLOCK_BEFORE_YEAR},?\s+(?P<year>[0-9]{{4}})(?![0-9:])",  # as ctime writes it
        rf"\b(?P<year>[0-9]{{4}})[\s,-]+{_MONTH}[\s-]+{_DAY_SECOND}",
        # Without a year: completes nothing, but may disagree. Capitalised, since "may 5" is no date.
        rf"{_DAY_FIRST}\s+(?:of\s+)?(?-i:(?=[A-Z])){_MONTH}",
        rf"(?-i:(?=[A-Z])){_MONTH}\s+{_DAY_SECOND}",
    )
)
_WEEKDAY = re.compile(
    rf"\b(?P<full>{'|'.join(_WEEKDAYS)})\b"
    r"|\b(?-i:(?P<short>Mon|Tue|Wed|Thu|Fri|Sat|Sun))[a-z]{0,2}\b(?=[.,]*\s+(?:the\s+)?(?:[0-9]|" + _MONTH + r"\s+[0-9]))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Date:
    """One date as read: all it may mean, as (year or None, month, day). Empty: no day of any calendar."""

    meanings: frozenset[tuple[int | None, int, int]]
    complete: bool

    def agrees(self, when: date) -> bool:
        return bool(self.meanings & {(when.year, when.month, when.day), (None, when.month, when.day)})


def _dates(text: str) -> Iterator[_Date]:
    for pattern in _DATES:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            if "c" in parts:
                meanings = _numeric_meanings(parts["a"], parts["b"], parts["c"], parts["sep"])
                if not meanings and len(parts["c"]) == 2:
                    continue  # a version number, say
            else:
                month = _MONTHS.index(parts["name"][:3].lower()) + 1 if parts.get("name") else int(parts["month"])
                meanings = _if_real(_year(parts.get("year")), month, int(parts["day"]))
            yield _Date(frozenset(meanings), complete="c" in parts or parts.get("year") is not None)
        text = pattern.sub(lambda match: ";" * len(match.group()), text)


def _numeric_meanings(a: str, b: str, c: str, separator: str) -> set[tuple[int | None, int, int]]:
    """What `a/b/c` may mean. With dots the day comes first if it can; else both orders; two-digit years may come first."""
    day_first = _if_real(_year(c), int(b), int(a))
    month_first = _if_real(_year(c), int(a), int(b))
    if separator == ".":
        return day_first or month_first
    year_first = _if_real(_year(a), int(b), int(c)) if separator == "-" and len(c) == 2 else set()
    return day_first | month_first | year_first


def _year(digits: str | None) -> int | None:
    if digits is None:
        return None
    digits = digits.removeprefix("'")
    return int(digits) + (2000 if len(digits) <= 2 else 0)


def _if_real(year: int | None, month: int, day: int) -> set[tuple[int | None, int, int]]:
    try:
        date(2000 if year is None else year, month, day)  # 2000 has a 29 February
    except ValueError:
        return set()
    return {(year, month, day)}


def _weekdays(text: str) -> Iterator[int]:
    """Weekdays named in `text`, Monday being 0. Short names count only in front of a date."""
    for match in _WEEKDAY.finditer(text):
        stem = (match["full"] or match["short"])[:3].lower()
        yield next(index for index, name in enumerate(_WEEKDAYS) if name.startswith(stem))


# --- times ----------------------------------------------------------------------------------------------------------------

_START = r"(?:(?<![0-9A-Za-z:])|(?<=[0-9]T))(?<![0-9][.:])(?P<hour>[0-9]{1,2})"
_HALF = r"(?P<half>[ap])(?:\.\s?)?m\b\.?"
_PART_OF_DAY = r"(?:\s+(?:in\s+the|at)\s+(?P<part>morning|afternoon|evening|night)\b)"
_OFFSET_FROM_UTC = re.compile(
    r"\b(?:UTC|GMT)\s?[+-]\s?[0-9]{1,2}(?::?[0-9]{2})?\b"
    r"|(?<=[0-9])\s?\+[01][0-9]:?[0-9]{2}\b"
    r"|(?<=:[0-9]{2}:[0-9]{2})\s?-[01][0-9]:?[0-9]{2}\b"  # without seconds it could as well be a span of time
)
_TIMES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        _START + r":(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.[0-9]{1,9}|,[0-9]{3,9})?)?"
        rf"(?![0-9]|:[0-9]|(?!Z\b|h\b|hrs\b|[ap]\.?m\b)[A-Za-z])(?:\s*{_HALF})?{_PART_OF_DAY}?",
        _START + r"\s?h\s?(?P<minute>[0-9]{2})(?:\s?m(?:in)?(?:\s?(?P<second>[0-9]{2})\s?s(?:ec)?)?)?(?![0-9A-Za-z])",
        rf"{_START}\.(?P<minute>[0-9]{{2}})\s*{_HALF}",
        rf"{_START}\s*{_HALF}",
    )
)


@dataclass(frozen=True, slots=True)
class _Time:
    """One time as read, on the 24-hour clock. `hour` is `None` when hour and half of the day contradict ("14:03 am")."""

    hour: int | None
    minute: int | None
    second: int | None

    def agrees(self, when: time) -> bool:
        return self.hour == when.hour and self.minute in (None, when.minute) and self.second in (None, when.second)

    def states(self, when: time) -> bool:
        """Agrees to the minute. "2 PM" is as good as "2:00 PM"."""
        return self.agrees(when) and (self.minute or 0) == when.minute


def _times(text: str) -> Iterator[_Time]:
    text = _OFFSET_FROM_UTC.sub(" ; ", text)
    for pattern in _TIMES:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            hour, minute, second = int(parts["hour"]), _number(parts.get("minute")), _number(parts.get("second"))
            if hour < 24 and (minute or 0) < 60 and (second or 0) < 60:
                yield _Time(_on_24_hours(hour, parts.get("half"), parts.get("part")), minute, second)
        text = pattern.sub(lambda match: ";" * len(match.group()), text)


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)


def _on_24_hours(hour: int, half: str | None, part_of_day: str | None) -> int | None:
    if half is None and part_of_day is not None and hour <= 12:
        late = {"morning": False, "afternoon": True, "evening": True, "night": 6 <= hour < 12}[part_of_day.lower()]
        half = "p" if late else "a"
    if half is None:
        return hour
    if half.lower() == "a":
        return hour % 12 if hour <= 12 else None
    return (hour % 12 + 12 if hour <= 12 else hour) if hour else None
