"""Families that write messages (frames): how a header looks, and what it says of the body behind it.

A frame is a header, a marker that opens its body, the body, and a marker that ends it (or the next header). The prompt
usually holds the first header's beginning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

from daneel.formats.call_grammar import CallLayout
from daneel.formats.json_scan import WHITE
from daneel.formats.lark import join, quote
from daneel.formats.markers import starts_with_any
from daneel.formats.scan import ArgumentGrammar, BodyScanner
from daneel.formats.syntax import CallSyntax
from daneel.formats.validate import ToolSet

MAX_HEADER = 400
"""Characters of a header. Longer ones are text."""

_MAX_GAP = 64
"""White space between a header and the body that must follow it."""

FrameKind = Literal["reasoning", "content", "call"]


@dataclass(frozen=True, slots=True)
class Header:
    """A complete header. `end`: where the body begins in the text it was read from. `name`: whom a call is written to, if told.

    `tentative`: a call only if its body is one, else content.
    """

    end: int
    kind: FrameKind
    name: str | None = None
    tentative: bool = False


class FrameGrammar(ArgumentGrammar, Protocol):
    """How the body of a call's frame is written. `write` gives the header's rest too, behind `start` and `role`."""

    @property
    def ends_itself(self) -> bool:
        """Whether the body has an end mark of its own, so that text behind it is no part of the call."""
        ...

    @property
    def needs_body(self) -> bool:
        """Whether a frame without a body is no call, though its header names a tool."""
        ...

    def frame_scanner(self, name: str | None, tools: ToolSet) -> BodyScanner:
        """A scanner for the body of a frame whose header tells `name`."""
        ...


@dataclass(frozen=True, slots=True)
class FrameSyntax:
    """How a family frames its messages.

    `start`: begins a header; `role`: stands behind it in the model's own messages, and the prompt ends with both. `labels`:
    markers inside a header; behind `channel_label` stands the channel. `opens`: markers that end a header, each with the
    kind of body it opens; `None`: recipient and channel decide. `ends`: markers that end a body. `interrupts`: markers, besides
    `start`, with which a new header may begin inside a body.

    `recipient`: a regular expression whose group `to` finds the recipient in a header's text, and `recipient_head` what the
    text behind the role must begin with ("" = anything). `kinds` of recipients that are no tool (`None`: such a recipient
    decides nothing); any other makes it a call. `prefix`: stands before a tool's name. `channels`: kinds by channel where no
    recipient decides; `tentative_without_recipient`: such a body may be a call too.
    `body_head`: what the body of a call must begin with where the tool is not declared; without it, and without a recipient,
    the header is text.
    `text`: a regular expression for a run of header characters. `rescue`: calls without markers may stand in content.
    `thought`: a thought before a call, as it stands behind the prompt, with `{text}`; where calls are forced it may come first.
    """

    start: str
    opens: tuple[tuple[str, FrameKind | None], ...]
    ends: tuple[str, ...]
    grammar: FrameGrammar
    role: str = ""
    labels: tuple[str, ...] = ()
    channel_label: str = ""
    interrupts: tuple[str, ...] = ()
    recipient: str = r"\s*(?P<to>\S*)"
    recipient_head: str = ""
    kinds: tuple[tuple[str, FrameKind | None], ...] = ()
    prefix: str = ""
    channels: tuple[tuple[str, FrameKind], ...] = ()
    tentative_without_recipient: bool = False
    body_head: str = ""
    text: str = r"[^<>{}\[\]()\"'`|]*+"
    rescue: bool = True
    thought: str = ""

    @property
    def markers(self) -> tuple[str, ...]:
        """Every marker, each once."""
        found = (self.start, *self.labels, *(marker for marker, _ in self.opens), *self.ends)
        return tuple(dict.fromkeys(marker for marker in found if marker.strip(WHITE)))

    def layout(self, call: CallSyntax, marker: Callable[[str], str], *, in_thought: bool) -> CallLayout:
        """What stands around calls behind a prompt that has begun a header, or (`in_thought`) a thought, which is closed."""
        opening = join(marker(self.start), quote(self.role) if self.role else "")
        closing = marker(call.close) if call.close else ""
        before = opening if in_thought else self._thought(marker)
        return CallLayout(before=before, close_pad=call.close_pad, call_close=closing, separator=opening)

    def _thought(self, marker: Callable[[str], str]) -> str:
        """A thought that may be left out. Only special tokens keep its text apart from what follows."""
        marks = "|".join(re.escape(mark) for mark in self.markers)
        pieces = [piece for piece in re.split(rf"({marks}|\{{text\}})", self.thought) if piece]
        written = {piece: marker(piece) for piece in pieces if piece in self.markers}
        if not pieces or any(term.startswith('"') for term in written.values()):
            return ""
        terms = [written.get(piece, r"/(.|\n)*/" if piece == "{text}" else quote(piece)) for piece in pieces]
        return f"({join(*terms)})?"

    def opened(self, prompt: str) -> Header | str:
        """What the prompt's end has begun: the header of a body that is open, or the beginning of a header."""
        default = self.start + self.role
        at = prompt.rfind(self.start)
        if at < 0:
            return default
        tail = prompt[at : at + MAX_HEADER + 1]
        header = self.read(tail, 0, ToolSet(None))
        if header == "more":
            return tail
        if isinstance(header, Header) and not any(end in prompt[at + header.end :] for end in self.ends):
            return header
        return default

    def read(self, text: str, pos: int, tools: ToolSet) -> Header | Literal["no", "more"]:
        """The header that begins at `pos`, with its `start` or one of the `interrupts`; `more` when the text is too short."""
        words, marks = _patterns(self)
        at, label = pos, ""
        if text.startswith(self.start, pos):
            at += len(self.start)
        parts: list[tuple[str, str]] = []
        while True:
            run = words.match(text, at)
            at = run.end() if run else at
            parts.append((label, run.group() if run else ""))
            if at - pos > MAX_HEADER or (len(parts) == 1 and not self._may_begin(parts[0][1])):
                return "no"
            found = marks.match(text, at)
            if found is None:
                return "more" if at == len(text) or starts_with_any(text, at, self._marks) else "no"
            label, at = found.group(), found.end()
            if label not in self.labels:
                return self._header(parts, label, text, at, tools)

    def begun(self, seed: str, text: str) -> Header | None:
        """What a header would be that breaks off at the end of `text`, `seed` being what the prompt held of it; `None` if
        `text` is too little to be one."""
        whole = seed + text
        for size in range(min(len(text), max(map(len, self._marks)) - 1), 0, -1):
            if any(mark.startswith(whole[-size:]) for mark in self._marks):
                whole = whole[:-size]
                break
        recipient = self._recipient([("", whole.removeprefix(self.start))]) if self.recipient_head else None
        if recipient is not None:
            call = self._decides(recipient) == "call"
            return Header(0, "call", recipient.removeprefix(self.prefix)) if call else Header(0, "content")
        bare = text.startswith(self.start) and self.role.startswith(whole.removeprefix(self.start).strip(WHITE))
        return Header(0, "content") if bare or any(label in whole for label in self.labels) else None

    @property
    def _marks(self) -> tuple[str, ...]:
        return (*self.labels, *(marker for marker, _ in self.opens))

    def _may_begin(self, words: str) -> bool:
        """Whether a header's first text is the role and a recipient, or their beginning."""
        if len(words) < len(self.role):
            return self.role.startswith(words)
        rest = words[len(self.role) :].lstrip(WHITE) if words.startswith(self.role) else None
        if rest is None:
            return False
        return self.recipient_head.startswith(rest[: len(self.recipient_head)])

    def _header(
        self, parts: list[tuple[str, str]], marker: str, text: str, at: int, tools: ToolSet
    ) -> Header | Literal["no", "more"]:
        kind = dict(self.opens)[marker]
        if kind == "reasoning" or kind == "content":
            return Header(at, kind)
        recipient = self._recipient(parts)
        decided = self._decides(recipient) if recipient is not None else None
        if kind is None and decided in ("reasoning", "content"):
            return Header(at, decided)
        if self.body_head and recipient is None:
            return "no"
        if kind == "call" or decided == "call":
            name = recipient.removeprefix(self.prefix) if recipient is not None else None
            return self._call(Header(at, "call", name), text, tools)
        channels = [words.split(maxsplit=1)[0] for label, words in parts if label == self.channel_label and words.split()]
        channel = channels[-1].split("to=", 1)[0] if channels and self.channel_label else ""
        return Header(at, dict(self.channels).get(channel, "content"), tentative=self.tentative_without_recipient)

    def _call(self, header: Header, text: str, tools: ToolSet) -> Header | Literal["no", "more"]:
        if not self.body_head or (tools.known and header.name is not None and tools.declared(header.name)):
            return header
        gap = text[header.end : header.end + _MAX_GAP]
        body = gap.lstrip(WHITE)
        if not body and len(gap) < _MAX_GAP:
            return "more"
        return header if body.startswith(self.body_head) else "no"

    def _recipient(self, parts: list[tuple[str, str]]) -> str | None:
        """The first recipient that the header's text names."""
        for number, (_, words) in enumerate(parts):
            own = words[len(self.role) :] if number == 0 and words.startswith(self.role) else words
            found = re.search(self.recipient, own)
            if found is not None and found.group("to"):
                return found.group("to")
        return None

    def _decides(self, recipient: str) -> FrameKind | None:
        return dict(self.kinds).get(recipient, "call")


@lru_cache(maxsize=64)
def _patterns(syntax: FrameSyntax) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A run of a header's text, and its markers."""
    marks = (*syntax.labels, *(marker for marker, _ in syntax.opens))
    return re.compile(syntax.text), re.compile("|".join(re.escape(mark) for mark in sorted(marks, key=len, reverse=True)))
