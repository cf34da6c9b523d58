"""Detectors: what a model does when it is stuck. Pure; the loop decides what follows and records every firing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_REMEMBERED = 64
"""Calls the detector remembers: the longest cycle it can find."""


@dataclass(slots=True)
class RepeatDetector:
    """Counts in how many turns the same call gave the same result, with nothing new between.

    Anything new (another call, or another result) shows progress and starts the counts afresh; so A-B-A-B is found as well
    as A-A-A. Several same calls in one turn count once.
    """

    counts: dict[str, int] = field(default_factory=dict)
    _this_turn: set[str] = field(default_factory=set)

    def start_turn(self) -> None:
        self._this_turn.clear()

    def seen(self, name: str, arguments: dict[str, Any], result: str) -> int:
        """How many turns this call had this result, this one included."""
        key = json.dumps([name, arguments, result], sort_keys=True, default=str)
        if key in self._this_turn:
            return self.counts[key]
        self._this_turn.add(key)
        if key not in self.counts:
            self.counts = dict.fromkeys(list(self.counts)[1 - MAX_REMEMBERED :], 1)
            self.counts[key] = 1
        else:
            self.counts[key] += 1
        return self.counts[key]


_WORD_BEFORE = r"(?<![A-Za-z0-9_])"
_WORD_AFTER = r"(?![A-Za-z0-9_])"
_VERB = r"\b(?:call|calling|invoke|invoking|use|using|run|running|execute|executing)\b"
_INTENT = _VERB + r"\W+(?:(?:a|an|the|my|tools?|functions?|called|named)\W+){0,4}"
_KIND_AFTER = r"\W{1,3}(?:tool|function)\b"


def announced(content: str, tool_names: Sequence[str], called: Iterable[str]) -> list[str]:
    """Tools that a text without a call speaks of, though they were not called since the user's message, in order of mention.

    A name that is an ordinary word ("add") counts only after a verb of calling, before "tool" or "(", or in backticks.
    """
    found: list[tuple[int, str]] = []
    done = set(called)
    for name in tool_names:
        if name in done:
            continue
        bare = _WORD_BEFORE + re.escape(name) + _WORD_AFTER
        distinct = not name.isalpha() or not name.islower()
        pattern = bare if distinct else rf"{_INTENT}{bare}|{bare}{_KIND_AFTER}|{bare}\(|`{bare}`"
        match = re.search(pattern, content, re.IGNORECASE if not distinct else 0)
        if match:
            found.append((match.start(), name))
    return [name for _, name in sorted(found)]
