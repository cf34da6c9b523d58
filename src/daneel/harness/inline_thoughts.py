"""Thoughts that a server left in the content, between a family's tags, taken out while the content streams in.

    <think>I add them.</think>The sum is 3.     ->  thoughts "I add them.", content "The sum is 3."

Tags count at the start of the content only. Where the prompt itself had opened the thoughts, only the closing tag is in the
content: what stood before it, already told as content or not, was thoughts. No text is changed, so that the message can go
back into a request as the server wrote it: see `reply.put_thoughts()`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from daneel.formats.registry import FAMILIES
from daneel.wire.accumulate import SplitText

QUOTES = "`'\"“”‘’"
"""A closing tag between these is spoken of, not written."""


@cache
def thought_tags() -> dict[str, str]:
    """Closing tag by opening tag, of all families that write thoughts between tags of their own."""
    tags: dict[str, str] = {}
    for family in FAMILIES.values():
        syntax = family.reasoning
        if syntax is None or family.framing is not None:
            continue
        for opening, closing in zip(syntax.opens, syntax.closes, strict=False):
            if not opening[:1].isalnum():  # a sentence that opens thoughts may open an answer too
                tags.update({opening + label: closing for label in syntax.labels or ("",)})
    return tags


class InlineThoughts:
    """Splits one reply's content, in pieces cut anywhere. `tag`: the tag found first, which is the only one if it closes."""

    def __init__(self) -> None:
        self.tag: str | None = None
        self._state: Literal["start", "thoughts", "content", "after"] = "start"
        self._held = ""
        self._given: list[str] = []
        """Content so far."""

    def feed(self, text: str) -> SplitText:
        """What is certain with this piece of content."""
        self._held += text
        return self._taken(at_end=False)

    def finish(self) -> SplitText:
        """The content has ended: what was held back."""
        split = self._taken(at_end=True)
        rest, self._held = self._held, ""
        return SplitText(split.thoughts + rest, split.content) if self._state == "thoughts" else split.with_content(rest)

    @property
    def held(self) -> SplitText:
        """What is not certain yet, as it would be if nothing followed."""
        return SplitText(self._held, "") if self._state == "thoughts" else SplitText("", self._held)

    def _taken(self, *, at_end: bool) -> SplitText:
        thoughts, was_thoughts = "", False
        if self._state == "start" and not self._started(at_end=at_end):
            return SplitText("", "")
        if self._state == "thoughts":
            thoughts = self._up_to_closing()
        elif self._state == "content":
            found = self._lone_closing(at_end=at_end)
            if found is not None:
                thoughts, was_thoughts = found, True
        if self._state == "thoughts":
            return SplitText(thoughts, "")
        certain = len(self._held) if self._state == "after" else self._certain()
        content, self._held = self._held[:certain], self._held[certain:]
        if content and self._state == "content":
            self._given.append(content)
        return SplitText(thoughts, content, was_thoughts)

    def _started(self, *, at_end: bool) -> bool:
        """Whether it is known how the content begins; then `_state` says it."""
        begin = self._held.lstrip()
        opening = next((tag for tag in sorted(thought_tags(), key=len, reverse=True) if begin.startswith(tag)), None)
        longer = any(tag.startswith(begin) and tag != opening for tag in thought_tags())
        if longer and not at_end:
            return False
        if opening is None:
            self._state = "content"
        else:
            self.tag, self._state, self._held = opening, "thoughts", begin[len(opening) :]
        return True

    def _up_to_closing(self) -> str:
        closing = thought_tags()[self.tag or ""]
        thoughts, found, rest = self._held.partition(closing)
        if found:
            self._state, self._held = "after", rest
            return thoughts
        certain = len(self._held) - _overlap(self._held, closing)
        thoughts, self._held = self._held[:certain], self._held[certain:]
        return thoughts

    def _lone_closing(self, *, at_end: bool) -> str | None:
        """The thoughts before a closing tag that nothing in the content opened."""
        for match in _lone_closings().finditer(self._held):
            behind = self._held[match.end() : match.end() + 1]
            if not behind and not at_end:
                return None
            if (behind and behind in QUOTES) or _is_spoken_of("".join(self._given) + self._held[: match.start()], match[0]):
                continue
            self.tag, self._state = match[0], "after"
            thoughts, self._held = self._held[: match.start()], self._held[match.end() :]
            return thoughts
        return None

    def _certain(self) -> int:
        """How much of the content cannot be part of a closing tag; one at the end waits for what stands behind it."""
        return len(self._held) - max(_overlap(self._held, tag + "\0") for tag in lone_closing_tags())


def _is_spoken_of(before: str, closing: str) -> bool:
    """Whether text like this makes a closing tag a thing that is spoken of: it stands in quotes, or opens the tag itself."""
    openings = [opening for opening, its_closing in thought_tags().items() if its_closing == closing]
    return before.endswith(tuple(QUOTES)) or any(opening in before for opening in openings)


@cache
def lone_closing_tags() -> tuple[str, ...]:
    """Closing tags that say by themselves what they close."""
    return tuple(dict.fromkeys(closing for closing in thought_tags().values() if "think" in closing.lower()))


@cache
def _lone_closings() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, lone_closing_tags())))


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of `text` may be the beginning of `tag`."""
    for length in range(min(len(text), len(tag) - 1), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0
