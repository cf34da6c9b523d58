"""The tags of calls that are written as pairs, and finding them in text that comes in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Literal

from daneel.formats.scan import Head

Role = Literal["body_open", "name_end", "key_open", "key_close", "value_open", "value_close", "body_close", "close", "other"]

MAX_NAME = 200
"""Characters of a tool's name, and of a key where one is looked ahead for."""

_NAME = re.compile(r"[^\s{}<>\[\]()\"'`\\,;=|]++")
_WORDS = re.compile(r"[^\s{}<>\[\]()\"'`,;=|]++(?: [^\s{}<>\[\]()\"'`,;=|]++)*+")
_WHITE_RUN = re.compile(r"[ \t\r\n]*+")


@dataclass(frozen=True, slots=True)
class PairTags:
    """One spelling of the tags; "" where the family has none. `body_open` and `body_close` stand around one call of several
    between shared markers, `name_end` behind its name."""

    key_open: str = "<arg_key>"
    key_close: str = "</arg_key>"
    value_open: str = "<arg_value>"
    value_close: str = "</arg_value>"
    body_open: str = ""
    name_end: str = ""
    body_close: str = ""


PLAIN_TAGS = PairTags()


class TagSet:
    """Some tags with their roles."""

    def __init__(self, roles: dict[str, Role]) -> None:
        self._roles = roles
        self._pattern = re.compile("|".join(re.escape(tag) for tag in sorted(roles, key=len, reverse=True)) or r"(?!)")
        self._prefixes = frozenset(tag[:size] for tag in roles for size in range(len(tag)))
        self._firsts = sorted({tag[0] for tag in roles})
        self._max_size = max((len(tag) for tag in roles), default=0)

    def search(self, text: str, pos: int) -> tuple[int, int, Role] | None:
        """The first tag from `pos` on: start, end, role."""
        match = self._pattern.search(text, pos)
        return (match.start(), match.end(), self._roles[match.group()]) if match else None

    def match(self, text: str, pos: int) -> tuple[int, Role] | None:
        """The end and role of the tag that stands at `pos`."""
        match = self._pattern.match(text, pos)
        return (match.end(), self._roles[match.group()]) if match else None

    def may_follow(self, text: str, pos: int) -> bool:
        """Whether the text from `pos` to its end, which may be empty, is the beginning of a tag."""
        return len(text) - pos < self._max_size and text[pos:] in self._prefixes

    def partial(self, text: str, pos: int) -> int:
        """How many characters at the end of `text`, from `pos` on, may begin a tag."""
        start = max(pos, len(text) - self._max_size + 1)
        longest = 0
        for first in self._firsts:
            at = text.find(first, start)
            while at >= 0 and text[at:] not in self._prefixes:
                at = text.find(first, at + 1)
            longest = max(longest, len(text) - at if at >= 0 else 0)
        return longest


@dataclass(frozen=True, slots=True)
class Spelling:
    """A family's tags by the place where each matters. `ends_itself`: a call has a closing tag of its own in the body."""

    tags: PairTags
    ends_itself: bool
    names_end: bool
    close: str
    start: TagSet
    behind_name: TagSet
    behind_pair: TagSet
    in_key: TagSet
    behind_key: TagSet
    in_value: TagSet
    behind_call: TagSet
    key_open: TagSet
    key_close: TagSet

    @staticmethod
    @lru_cache(maxsize=64)
    def of(spellings: tuple[PairTags, ...], closes: tuple[str, ...], others: tuple[str, ...]) -> Spelling:
        by_role: dict[Role, tuple[str, ...]] = {
            field.name: tuple(text for tags in spellings if (text := getattr(tags, field.name)))  # type: ignore[misc]
            for field in fields(PairTags)
        }
        by_role["close"], by_role["other"] = closes, (*others, *by_role["body_open"])

        def tag_set(*roles: Role) -> TagSet:
            return TagSet({text: role for role in roles for text in by_role[role]})

        main = spellings[0]
        ends: tuple[Role, ...] = ("other", "close", "body_close")
        return Spelling(
            tags=main,
            ends_itself=bool(main.body_close),
            names_end=bool(main.name_end),
            close=main.body_close or closes[0],
            start=tag_set("body_open"),
            behind_name=tag_set("name_end", "key_open", *ends),
            behind_pair=tag_set("key_open", *ends),
            in_key=tag_set("key_close", "value_open", *ends),
            behind_key=tag_set("value_open"),
            in_value=tag_set("value_close", "key_open", *ends),
            behind_call=tag_set(*ends),
            key_open=tag_set("key_open"),
            key_close=tag_set("key_close"),
        )


def behind_white(text: str, pos: int) -> int:
    match = _WHITE_RUN.match(text, pos)
    return match.end() if match else pos


def name_at(text: str, pos: int) -> str:
    """The name that stands at `pos`, "" if none does."""
    match = _NAME.match(text, pos, pos + MAX_NAME)
    return match.group() if match else ""


def head_of(spelling: Spelling, text: str, pos: int) -> Head:
    """Whether a body begins at `pos`: a name with a tag or a JSON object behind it, or a JSON object that is a call.

    A marker in prose is text: words that no tag follows are no name.
    """
    start = behind_white(text, pos)
    opened = spelling.start.match(text, start)
    if opened is not None:
        start = behind_white(text, opened[0])
    elif spelling.ends_itself and text[start : start + 1] not in ("", "{", "["):
        return "more" if spelling.start.may_follow(text, start) else "no"
    if start == len(text):
        return "more"
    if text[start] in "{[":
        return _begins(text, behind_white(text, start + 1), '"}' if text[start] == "{" else "{]")
    name = name_at(text, start)
    at = behind_white(text, start + len(name))
    if not name or len(name) == MAX_NAME:
        return "no"
    if at == len(text) or spelling.behind_name.may_follow(text, at):
        return "more"
    if text[at] == "{" or spelling.behind_name.match(text, at) is not None:
        return "yes"
    # words right behind the marker may be a badly written name, if they do not go on
    words = _WORDS.match(text, opened[0] if opened is not None else pos, pos + MAX_NAME)
    at = behind_white(text, words.end()) if words is not None else len(text)
    if words is None or (at < len(text) and not spelling.key_open.may_follow(text, at)):
        return "yes" if spelling.key_open.match(text, at) is not None else "no"
    return "more" if words.end() < pos + MAX_NAME else "no"


def _begins(text: str, pos: int, chars: Iterable[str]) -> Head:
    return "more" if pos == len(text) else "yes" if text[pos] in chars else "no"
