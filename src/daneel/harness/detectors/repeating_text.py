"""Thought or text that repeats itself, found while it streams, so that it need not run on to the length limit.

Two signs. The text ends in one unit repeated over and over (any unit: a character, a line, a paragraph). Or, in thoughts, one
sentence comes back again and again among others. Tables, grids and lists repeat as well, so text for the person needs more of
it than thoughts do, and a call that is being written is not looked at.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass
from typing import Literal

Kind = Literal["reasoning", "content"]

LOOKED_AT_CHARS = 8000
"""How far back a unit is looked for: its longest length, and then some."""
CHECK_EVERY_CHARS = 100
PROBE_CHARS = (24, 160, 640)
"""The end of the text is looked for further up: a longer piece of it, where a shorter one comes back within the unit."""
MAX_UNIT_CHARS = 2500
SENTENCE_CHARS = 20
MAX_SENTENCE_CHARS = 500
SENTENCES = 40
"""Sentences of thought that are compared with one another."""
_SENTENCE_END = re.compile(r"(?<=[.!?\n])\s+")


@dataclass(frozen=True, slots=True)
class Repetition:
    """What repeats: `keep` characters of the text are what was said before, and the unit once."""

    kind: Kind
    times: int
    unit: str
    keep: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much must repeat: so many times, and so many characters in all."""

    times: int
    chars: int
    sentence_times: int | None = None


BOUNDS: dict[Kind, Bounds] = {"reasoning": Bounds(4, 500, 8), "content": Bounds(8, 1600)}


class RepetitionWatch:
    """One text as it streams. `feed` gives the repetition once it is certain. Constant work per character."""

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self._bounds = BOUNDS[kind]
        self._tail = ""
        self._length = 0
        self._unchecked = 0
        self._open = ""
        self._sentences: deque[tuple[str, int]] = deque()
        self._counts: Counter[str] = Counter()

    def feed(self, piece: str) -> Repetition | None:
        for start in range(0, len(piece), CHECK_EVERY_CHARS):
            found = self._feed(piece[start : start + CHECK_EVERY_CHARS])
            if found is not None:
                return found
        return None

    def _feed(self, piece: str) -> Repetition | None:
        self._tail += piece
        self._length += len(piece)
        self._unchecked += len(piece)
        sentence = self._sentence(piece) if self._bounds.sentence_times else None
        if self._unchecked < CHECK_EVERY_CHARS:
            return sentence
        return self.check() or sentence

    def check(self) -> Repetition | None:
        """Look at the end of the text as it is now."""
        self._unchecked = 0
        if len(self._tail) > 2 * LOOKED_AT_CHARS:
            self._tail = self._tail[-LOOKED_AT_CHARS:]
        return self._periodic()

    def _periodic(self) -> Repetition | None:
        """One unit over and over at the end of the text."""
        tail = self._tail
        if len(tail) < self._bounds.chars:
            return None
        tried = 0
        for num_chars in PROBE_CHARS:
            before = tail.rfind(tail[-num_chars:], 0, len(tail) - 1)
            period = len(tail) - num_chars - before
            if before < 0 or period > MAX_UNIT_CHARS:
                return None
            found = self._with_period(period) if period != tried else None
            if found is not None:
                return found
            tried = period
        return None

    def _with_period(self, period: int) -> Repetition | None:
        repeated = period + _common_end(self._tail[:-period], self._tail)
        times = repeated // period
        if times < self._bounds.times or repeated < self._bounds.chars:
            return None
        return Repetition(self._kind, times, self._tail[-period:], self._length - repeated + period)

    def _sentence(self, piece: str) -> Repetition | None:
        """One sentence again and again among the last ones. Numbers count: going through a list is no repetition."""
        self._open += piece
        if len(self._open) > MAX_SENTENCE_CHARS:
            self._open = ""
        if not piece.rstrip(" \t") or not any(end in self._open[-len(piece) - 1 :] for end in ".!?\n"):
            return None
        begin = self._length - len(self._open)
        used = 0
        for end in _SENTENCE_END.finditer(self._open):
            text, used = self._open[used : end.start()], end.end()
            sentence = " ".join(text.split()).lower()
            if len(sentence) < SENTENCE_CHARS:
                continue
            self._sentences.append((sentence, begin + used))
            self._counts[sentence] += 1
            if len(self._sentences) > SENTENCES:
                old, _ = self._sentences.popleft()
                self._counts[old] -= 1
                if not self._counts[old]:
                    del self._counts[old]
            if self._counts[sentence] >= (self._bounds.sentence_times or 0):
                first = next(end for found, end in self._sentences if found == sentence)
                return Repetition(self._kind, self._counts[sentence], sentence, first)
        self._open = self._open[used:]
        return None


def _common_end(first: str, second: str) -> int:
    """How many characters at their ends the two have in common."""
    count, step = 0, 64
    longest = min(len(first), len(second))
    while count + step <= longest:
        end_1, end_2 = len(first) - count, len(second) - count
        if first[end_1 - step : end_1] != second[end_2 - step : end_2]:
            break
        count += step
    while count < longest and first[len(first) - count - 1] == second[len(second) - count - 1]:
        count += 1
    return count


def find_repetition(text: str | None, kind: Kind) -> Repetition | None:
    """The repetition in a whole text, as it would have been found while the text streamed."""
    watch = RepetitionWatch(kind)
    return watch.feed(text or "") or watch.check()
