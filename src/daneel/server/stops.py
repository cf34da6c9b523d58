"""Stop strings, found also when they are split over tokens."""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Lets text through until a stop string is complete; holds back what may become one.

    The stop string that is complete first wins (of two that end together, the longer), so the result does not depend on how
    the text was cut. The text let through never holds any part of the stop string that was found.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """The text that may be shown now. After a match: nothing."""
        if self.matched is not None:
            return ""
        if not self._stops:
            return text
        self._held += text
        found = [(start + len(stop), start, stop) for stop in self._stops if (start := self._held.find(stop)) >= 0]
        if found:
            _, start, self.matched = min(found)
            return self._release(start)
        return self._release(len(self._held) - self._num_possible())

    def finish(self) -> str:
        """The text ended: what was held back is text after all, unless a stop string was found."""
        return "" if self.matched is not None else self._release(len(self._held))

    def _release(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        return text

    def _num_possible(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        for length in range(min(self._longest - 1, len(self._held)), 0, -1):
            tail = self._held[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0
