"""From generated tokens to deltas: text, calls, failed calls, and an account of every token.

One `ReplyBuilder` per request. The whole reply is the join of the same deltas that a stream sends, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daneel.formats.base import CallProgressEvent, Event, Parser, Span, SpanKind
from daneel.formats.validate import ToolSet
from daneel.server.deltas import DeltaOptions, DeltaWriter
from daneel.server.detokenize import Detokenizer, SpanLedger, token_span
from daneel.server.engines.base import StepOutput, TokenAlternatives
from daneel.server.stops import StopMatcher
from daneel.wire.messages import ChoiceLogprobs, CompletionTokensDetails, Delta, TokenLogprob, TopLogprob


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """`done` of `total` uncached prompt tokens are evaluated."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A call is being written: `num_chars` so far. `name` is `None` until the model has written it."""

    name: str | None
    num_chars: int


@dataclass(slots=True)
class Piece:
    """A delta, and the log-probabilities of the tokens whose part of the reply has become known with it."""

    delta: Delta
    logprobs: ChoiceLogprobs | None = None


Item = PrefillProgress | CallProgress | Piece


@dataclass(frozen=True, slots=True)
class ReplyOptions(DeltaOptions):
    """What the request and the model decide about the form of the reply."""

    logprobs: bool


class ReplyBuilder:
    """Feed each `StepOutput` to `step()`, then call `finish()` once. After that the accounts are complete."""

    def __init__(
        self,
        parser: Parser,
        tools: ToolSet,
        *,
        pieces: Sequence[bytes],
        end_ids: frozenset[int],
        stops: Sequence[str],
        options: ReplyOptions,
    ) -> None:
        self._parser = parser
        self._writer = DeltaWriter(tools, options, self._token_span)
        self._pieces = pieces
        self._end_ids = end_ids
        self._matcher = StopMatcher(stops)
        self._options = options
        self._detokenizer = Detokenizer(pieces)
        self._ledger = SpanLedger()
        self._texts: list[str] = []
        self._alternatives: list[TokenAlternatives] = []
        self._num_logprobs_given = 0
        self.token_ids: list[int] = []

    @property
    def stopped(self) -> bool:
        """A stop string is complete: what the engine generates from here on is not wanted."""
        return self._matcher.matched is not None

    @property
    def num_good_calls(self) -> int:
        return self._writer.num_good_calls

    @property
    def raw_text(self) -> str:
        """Everything generated, markers and end token included."""
        return "".join(self._texts)

    def step(self, output: StepOutput) -> list[Item]:
        """The items of one engine step. Raises `ToolCallFailed` when the request wants failed calls as errors."""
        self._alternatives.extend(output.logprobs or ())
        text = ""
        for token_id in output.token_ids:
            self.token_ids.append(token_id)
            if token_id in self._end_ids:
                # an end token is never a part of the message: it is accounted for in finish(), behind all other text
                self._texts.append(tail := self._detokenizer.finish())
                text += self._matcher.feed(tail)
                self._texts.append(self._detokenizer.feed(token_id))
            else:
                self._texts.append(new := self._detokenizer.feed(token_id))
                text += self._matcher.feed(new)
        return self._items(self._parser.feed(text)) if text else []

    def finish(self, *, truncated: bool) -> list[Item]:
        """The end. `truncated`: a length limit ended it, not the model."""
        self._texts.append(tail := self._detokenizer.finish())
        text = self._matcher.feed(tail) + self._matcher.finish()
        events = self._parser.feed(text) if text else []
        events += self._parser.finish(truncated=truncated or self.stopped)
        items = self._items(events)
        self._ledger.add(Span("control", self._ledger.end, self._detokenizer.num_chars))
        if entries := self._new_logprobs(to_end=True):
            items.append(Piece(Delta(), entries))
        return items

    def token_kinds(self) -> list[SpanKind]:
        """The kind of each generated token; after `finish()`."""
        return self._ledger.kinds(self._detokenizer.starts)

    def token_details(self) -> CompletionTokensDetails:
        """The five counts, which add up to the number of generated tokens; after `finish()`."""
        kinds = self.token_kinds()
        return CompletionTokensDetails(
            reasoning_tokens=kinds.count("reasoning"),
            content_tokens=kinds.count("content"),
            tool_tokens=kinds.count("tool"),
            failed_tokens=kinds.count("failed"),
            control_tokens=kinds.count("control"),
        )

    def _items(self, events: list[Event]) -> list[Item]:
        items: list[Item] = []
        for event in events:
            if isinstance(event, CallProgressEvent):
                items.append(CallProgress(event.name, event.num_chars))
                continue
            delta = self._writer.delta(event)
            self._ledger.add(event.span)
            if delta is not None:
                items.append(Piece(delta))
        if self._options.logprobs and (entries := self._new_logprobs(to_end=False)):
            items.append(Piece(Delta(), entries))
        return items

    def _token_span(self, span: Span) -> tuple[int, int]:
        return token_span(self._detokenizer.starts, span)

    def _new_logprobs(self, *, to_end: bool) -> ChoiceLogprobs | None:
        """Entries of the tokens of content and calls whose span has become known since the last time, if there are any."""
        starts = self._detokenizer.starts
        first = self._num_logprobs_given
        last = len(starts) if to_end else token_span(starts, Span("content", 0, self._ledger.end))[1]
        last = min(last, len(self._alternatives))
        self._num_logprobs_given = max(first, last)
        kinds = self._ledger.kinds(starts[first:last])
        content = [self._logprob(index) for index, kind in enumerate(kinds, start=first) if kind == "content"]
        calls = [self._logprob(index) for index, kind in enumerate(kinds, start=first) if kind in ("tool", "failed")]
        return ChoiceLogprobs(content, calls) if content or calls else None

    def _logprob(self, index: int) -> TokenLogprob:
        alternatives = self._alternatives[index]
        top = [_top_logprob(self._pieces[token_id], logprob) for token_id, logprob in alternatives.top]
        piece = self._pieces[self.token_ids[index]]
        return TokenLogprob(piece.decode("utf-8", "replace"), alternatives.logprob, list(piece), top)


def _top_logprob(piece: bytes, logprob: float) -> TopLogprob:
    return TopLogprob(piece.decode("utf-8", "replace"), logprob, list(piece))
