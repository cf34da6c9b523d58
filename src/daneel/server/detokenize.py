"""From token ids to text, and from spans of characters back to tokens.

The engine gives ids; the format's parser wants text and gives spans of characters; usage counts tokens. `Detokenizer` keeps,
for every generated token, the character where its text starts, so that each token belongs to exactly one span: the one that
holds its first character.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from daneel.formats.base import Span, SpanKind


class Detokenizer:
    """Joins the bytes of tokens to text. A character split over tokens comes out whole, with its last token.

    Bytes that are no UTF-8 become U+FFFD, at the latest in `finish()`. `starts[i]` is the position of token i's first
    character in the whole text (for a token that continues a character: that character's position).
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.num_chars = 0
        self.starts: list[int] = []

    def feed(self, token_id: int) -> str:
        """The text that this token completes; may be empty."""
        piece = self._pieces[token_id]
        text = ""
        if piece and not 0x80 <= piece[0] < 0xC0:
            # not a continuation byte: what was pending will never be complete, and this token starts behind it
            text = self._decoder.decode(b"", final=True)
            self._decoder.reset()
        self.starts.append(self.num_chars + len(text))
        text += self._decoder.decode(piece)
        self.num_chars += len(text)
        return text

    def finish(self) -> str:
        """What is left of a broken character."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        self.num_chars += len(text)
        return text


class SpanLedger:
    """The spans of one generation, in order: they must partition the text, and partition the tokens with it."""

    def __init__(self) -> None:
        self._kinds: list[SpanKind] = []
        self._ends: list[int] = []

    @property
    def end(self) -> int:
        """Up to which character the text is accounted for."""
        return self._ends[-1] if self._ends else 0

    def add(self, span: Span) -> None:
        """Raises `ValueError` when the span does not start where the last one ended: a bug of a format's parser."""
        if span.start != self.end or span.end < span.start:
            raise ValueError(f"span {span} does not follow on character {self.end}")
        if span.end == span.start:
            return
        if self._kinds and self._kinds[-1] == span.kind:
            self._ends[-1] = span.end
        else:
            self._kinds.append(span.kind)
            self._ends.append(span.end)

    def kinds(self, starts: Iterable[int], *, first_span: int = 0) -> list[SpanKind]:
        """The kind of each token. `starts` ascend; a token that starts at the very end (it has no text) is `control`."""
        kinds: list[SpanKind] = []
        index = first_span
        for start in starts:
            while index < len(self._ends) and self._ends[index] <= start:
                index += 1
            kinds.append(self._kinds[index] if index < len(self._ends) else "control")
        return kinds


def token_span(starts: Sequence[int], span: Span) -> tuple[int, int]:
    """The tokens (half-open) whose first character lies in `span`. `starts` are a `Detokenizer`'s."""
    return bisect_left(starts, span.start), bisect_left(starts, span.end)
