"""The tags of `<invoke name="NAME">` formats: how a grammar spells them, and reading one of them.

Attributes may be quoted either way or not at all. Between a tag's name and its attributes the white space may be missing, or
be the letter that byte-level tokenizers show for a space: detokenised text has both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

MAX_TAG = 1000
"""Characters of an opening tag; a longer one is none."""

GAP = "[\\s\u0120]"
_REST = r"""(?:[^"'<>]++|"[^"]*+"|'[^']*+')*+"""
_ATTRIBUTE = re.compile(rf"""{GAP}*+([A-Za-z_]++){GAP}*+={GAP}*+("[^"]*+"|'[^']*+'|[^\s"'<>=/{chr(0x120)}]++)""")
_ENDING = re.compile(rf"{GAP}*+(/?){GAP}*+>")


@dataclass(frozen=True, slots=True)
class Tag:
    """An opening tag that was read: where it ends, its attributes, whether it closes itself, whether its space was odd."""

    end: int
    attributes: dict[str, str]
    closed: bool
    odd_gap: bool


@dataclass(frozen=True, slots=True)
class InvokeTags:
    """How a family spells its tags.

    `invoke`, `parameter`: their names. `typed`: a parameter says `string="true"` or `"false"`. `cdata`: a value may stand in
    `<![CDATA[` ... `]]>`. `marker`: the markers of the call are the beginning of its opening tag, up to the name, and its
    closing tag; the body is what stands between. `before`, `before_word`, `after`: what stands around each call inside its
    section. `ended_by`: what ends a call whose closing tag is missing.
    """

    invoke: str = "invoke"
    parameter: str = "parameter"
    typed: bool = False
    cdata: bool = False
    marker: bool = False
    before: str = ""
    before_word: str = ""
    after: str = ""
    ended_by: tuple[str, ...] = ()

    @property
    def call_open(self) -> str:
        return f"<{self.invoke}"

    @property
    def call_end(self) -> str:
        return f"</{self.invoke}>"

    @property
    def value_open(self) -> str:
        return f"<{self.parameter}"

    @property
    def value_end(self) -> str:
        return f"</{self.parameter}>"


class TagReader:
    """Reads the opening tags that begin with `start`: `<invoke`, or a marker's end that stands before an attribute's value.

    `first`: the attribute whose value comes first without its name.
    """

    def __init__(self, start: str, first: str = "") -> None:
        self.start = start
        self._first = first
        self._whole = re.compile(re.escape(start) + _REST + ">")
        self._begun = re.compile(re.escape(start) + _REST + r"""(?:"[^"]*+|'[^']*+)?+\Z""")

    def read(self, text: str, pos: int) -> Tag | Literal["more"] | None:
        """The tag at `pos`; `None` when there is none, `"more"` when its end is not there yet."""
        whole = self._whole.match(text, pos)
        if whole is None:
            begun = begins(text, pos, self.start) or self._begun.match(text, pos)
            return "more" if begun and len(text) - pos <= MAX_TAG else None
        at = pos + len(self.start)
        odd = not self._first and not text[at].isspace()
        attributes: dict[str, str] = {}
        prefix = f"{self._first}=" if self._first else ""
        inside, size = prefix + text[at : whole.end()], len(prefix)
        at = 0
        while (found := _ATTRIBUTE.match(inside, at)) is not None:
            if found[1] in attributes:
                return None
            attributes[found[1]] = found[2][1:-1] if found[2][0] in "\"'" else found[2]
            at = found.end()
        ending = _ENDING.match(inside, at)
        if ending is None or ending.end() != len(inside):
            return None
        return Tag(pos + len(self.start) + ending.end() - size, attributes, bool(ending[1]), odd)


def begins(text: str, pos: int, literal: str) -> bool:
    """Whether the text ends, from `pos` on, in the beginning of the literal."""
    return len(text) - pos < len(literal) and literal.startswith(text[pos:])


@lru_cache(maxsize=64)
def tag_reader(start: str, first: str = "") -> TagReader:
    """The reader of such tags; its patterns are compiled once."""
    return TagReader(start, first)


class Delimiters:
    """Texts that begin with `<` and hold no other, found in text that comes in pieces."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._pattern = re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))))
        self._prefixes = frozenset(text[:size] for text in texts for size in range(1, len(text)))
        self._size = max(map(len, texts))

    def search(self, text: str, pos: int) -> re.Match[str] | None:
        return self._pattern.search(text, pos)

    def whole_before(self, text: str, pos: int) -> int:
        """Up to where a text that holds none of them, from `pos` on, cannot be the beginning of one."""
        last = text.rfind("<", max(pos, len(text) - self._size + 1))
        return last if last >= 0 and text[last:] in self._prefixes else len(text)


@lru_cache(maxsize=64)
def delimiters(texts: tuple[str, ...]) -> Delimiters:
    """The delimiters; their pattern is compiled once."""
    return Delimiters(texts)
