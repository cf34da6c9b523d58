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

_GAP_CHARS = " \t\n\r\u0120"
GAP = f"[{_GAP_CHARS}]"
_VALUE = rf"""(?:"[^"]*+"|'[^']*+'|[^\s"'<>=/{chr(0x120)}]++)"""
_ATTRIBUTE = rf"{GAP}*+[A-Za-z_]++{GAP}*+={GAP}*+{_VALUE}"
_ENDING = rf"{GAP}*+/?+{GAP}*+"
_BEGUN_VALUE = r"""(?:"[^"]*+|'[^']*+)?+"""
_BEGUN = rf"{GAP}*+(?:[A-Za-z_]++{GAP}*+(?:={GAP}*+{_BEGUN_VALUE})?+)?+(?:/{GAP}*+)?+\Z"
_PARTS = re.compile(rf"([A-Za-z_]++){GAP}*+={GAP}*+({_VALUE})")


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
        lead = re.escape(start) + (GAP + "*+" + _VALUE if first else "")
        self._whole = re.compile(f"{lead}(?:{_ATTRIBUTE})*+{_ENDING}>")
        begun = f"{lead}(?:{_ATTRIBUTE})*+{_BEGUN}"
        self._begun = re.compile(rf"{begun}|{GAP}*+{_BEGUN_VALUE}\Z" if first else begun)

    def read(self, text: str, pos: int) -> Tag | Literal["more"] | None:
        """The tag at `pos`; `None` when there is none, `"more"` when its end is not there yet."""
        whole = self._whole.match(text, pos)
        if whole is None:
            begun = begins(text, pos, self.start) or self._begun.match(text, pos)
            return "more" if begun and len(text) - pos <= MAX_TAG else None
        inside = (f"{self._first}=" if self._first else "") + text[pos + len(self.start) : whole.end()]
        attributes: dict[str, str] = {}
        for name, value in _PARTS.findall(inside):
            if name in attributes:
                return None
            attributes[name] = value[1:-1] if value[0] in "\"'" else value
        odd = not self._first and not inside[0].isspace()
        return Tag(whole.end(), attributes, inside[:-1].rstrip(_GAP_CHARS).endswith("/"), odd)


def begins(text: str, pos: int, literal: str) -> bool:
    """Whether the text ends, from `pos` on, in the beginning of the literal."""
    return len(text) - pos < len(literal) and literal.startswith(text[pos:])


class Nesting:
    """Tells which tags inside a value open something: those of any attributes that do not close themselves."""

    def __init__(self, start: str) -> None:
        lead, rest = re.escape(start), rf"""[\s/{chr(0x120)}](?:[^"'<>]++|"[^"]*+"|'[^']*+')*+"""
        self._whole = re.compile(f"{lead}(?:{rest})?+>")
        self._begun = re.compile(rf"""{lead}(?:{rest}(?:"[^"]*+|'[^']*+)?+)?+\Z""")

    def opens(self, text: str, pos: int) -> bool | Literal["more"]:
        """Whether the text at `pos`, which begins like a tag, opens one."""
        whole = self._whole.match(text, pos)
        if whole is not None:
            return not whole[0].endswith("/>")
        return "more" if len(text) - pos <= MAX_TAG and self._begun.match(text, pos) else False


@lru_cache(maxsize=64)
def nesting(start: str) -> Nesting:
    """The nesting of such tags; its patterns are compiled once."""
    return Nesting(start)


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
