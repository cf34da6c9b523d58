"""A call that is announced in prose and never made: small models' commonest loss."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

MAX_MENTIONS = 20
"""Of one tool, that are looked at."""

_WORD_BEFORE = r"(?<![A-Za-z0-9_])"
_WORD_AFTER = r"(?![A-Za-z0-9_])"
_VERB = r"\b(?:call|calling|invoke|invoking|use|using|run|running|execute|executing)\b"
_INTENT = _VERB + r"\W+(?:(?:a|an|the|my|tools?|functions?|called|named)\W+){0,4}"
_KIND_AFTER = r"\W{1,3}(?:tool|function)\b"


_NOT = r"not|never|without|cannot|no need|unnecessary|available|following|offers?|access|\w+n['’]t"
_DENIED = re.compile(rf"\b(?:{_NOT})\b", re.IGNORECASE)
_TOLD = re.compile(rf"\b(?:{_NOT}|used|called|ran|could|can|may|might|would|if)\b", re.IGNORECASE)
_ENDS = ".!?\n"


def _sentence(content: str, start: int, end: int) -> str:
    """The sentence that the text from `start` to `end` stands in."""
    first = max(content.rfind(mark, 0, start) for mark in _ENDS) + 1
    ends = [place for mark in _ENDS if (place := content.find(mark, end)) >= 0]
    return content[first : min(ends, default=len(content))]


def announced(content: str, tool_names: Sequence[str], called: Iterable[str]) -> list[str]:
    """Tools that a text without a call speaks of, though they were not called since the user's message, in order of mention.

    A name that is an ordinary word ("add") counts only after a verb of calling, before "tool" or "(", or in backticks. A
    sentence that says what was done, what could be done, or that something is not done announces nothing; before the first
    call, though, "I can use it" is as good as "I will".
    """
    found: list[tuple[int, str]] = []
    done = set(called)
    for name in tool_names:
        if name in done:
            continue
        bare = _WORD_BEFORE + re.escape(name) + _WORD_AFTER
        distinct = not name.isalpha() or not name.islower()
        pattern = bare if distinct else rf"{_INTENT}{bare}|{bare}{_KIND_AFTER}|{bare}\(|`{bare}`"
        denial = _TOLD if done else _DENIED
        mentions = re.finditer(pattern, content, re.IGNORECASE if not distinct else 0)
        for match in islice(mentions, MAX_MENTIONS):
            if not denial.search(_sentence(content, match.start(), match.end())):
                found.append((match.start(), name))
                break
    return [name for _, name in sorted(found)]
