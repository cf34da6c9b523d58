"""A call that is announced in prose and never made: small models' commonest loss."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

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
