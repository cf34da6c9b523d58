"""From deltas to a message.

`join()` joins daneel's own typed deltas: nothing to forgive, so nothing is forgiven. `Accumulator` reads the raw chunks (or
the whole reply) of any peer of the dialect and gives the message as daneel's own struct, with `notes` on everything that was
out of the ordinary. Neither does I/O.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from daneel.wire.call_pieces import CallPieces
from daneel.wire.error_body import PeerError, error_in
from daneel.wire.lenient_json import SurrogateJoiner
from daneel.wire.messages import (
    Delta,
    FailedToolCall,
    JsonObject,
    Message,
    Repair,
    ToolCallIssue,
    Usage,
    Warning,
)
from daneel.wire.usage import cached_tokens, read_usage

REASONING_FIELDS = ("reasoning", "reasoning_content")
"""The names peers give to the model's thoughts."""


def join(deltas: Iterable[Delta]) -> Message:
    """The message that the deltas add up to. Text appends, lists extend; text that stays empty is null."""
    texts: dict[str, list[str]] = {"content": [], "reasoning": [], "reasoning_content": []}
    message = Message(role="assistant", content=None, tool_calls=[], failed_tool_calls=[], tool_call_issues=[], repairs=[])
    for delta in deltas:
        message.role = delta.role or message.role
        for name, parts in texts.items():
            part = getattr(delta, name)
            if part:
                parts.append(part)
        message.tool_calls.extend(delta.tool_calls)
        message.failed_tool_calls.extend(delta.failed_tool_calls)
        message.tool_call_issues.extend(delta.tool_call_issues)
        message.repairs.extend(delta.repairs)
    for name, parts in texts.items():
        setattr(message, name, "".join(parts) or None)
    return message


def new_call_id() -> str:
    """An id for a call whose peer gave none: unlike any other, so that it may stand in a history beside others."""
    return "call_" + uuid.uuid4().hex[:24]


class SplitText(NamedTuple):
    """Content as thoughts and content. `was_thoughts`: so was all content before it."""

    thoughts: str
    content: str
    was_thoughts: bool = False

    def with_content(self, more: str) -> SplitText:
        return self._replace(content=self.content + more)


class ContentSplitter(Protocol):
    """Takes thoughts out of content that comes in pieces. `tag`: the text that set them off, in place of a field's name."""

    tag: str | None

    def feed(self, text: str) -> SplitText: ...

    def finish(self) -> SplitText: ...

    @property
    def held(self) -> SplitText: ...


class Accumulator:
    """Reads chunks of a stream, or one whole reply, of any peer.

    After the last `add()`: `message()`, and the attributes `finish_reason` (the peer's own word), `usage`, `cached_tokens`
    (`None` if the peer did not say), `warnings`, `logprobs` (the peer's entries, as they came), `daneel`, `error` (an error
    frame, if one came), `reasoning_field` (the name the peer gave the thoughts), `refusal`, `model`, `system_fingerprint`, and
    `notes` (what was out of the ordinary, in words).
    `split` takes thoughts out of the content of peers that leave them there; `reasoning_field` is then the tag it found.
    """

    def __init__(self, *, new_id: Callable[[], str] = new_call_id, split: ContentSplitter | None = None) -> None:
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self.cached_tokens: int | None = None
        self.warnings: list[Warning] = []
        self.logprobs: list[JsonObject] = []
        self.daneel: JsonObject | None = None
        self.error: PeerError | None = None
        self.reasoning_field: str | None = None
        self.refusal: str | None = None
        self.model: str | None = None
        self.system_fingerprint: str | None = None
        self.num_choices_seen = 0
        self._own_notes: list[str] = []
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._halves = {"content": SurrogateJoiner(), "reasoning": SurrogateJoiner()}
        self._split = split
        self._calls = CallPieces(new_id)
        self._failed: list[FailedToolCall] = []
        self._issues: list[ToolCallIssue] = []
        self._repairs: list[Repair] = []

    @property
    def notes(self) -> list[str]:
        return [*self._own_notes, *self._calls.notes]

    @property
    def num_calls(self) -> int:
        """Calls begun so far, whole or not."""
        return len(self._calls)

    def add(self, chunk: Any) -> Delta | None:
        """Take one chunk (or whole reply). Returns its new text as a delta, or `None` if it brought nothing new at all.

        Calls may still change while their pieces come in, so they are not in it: see `final_delta()`.
        """
        if not isinstance(chunk, dict):
            self._note(f"a chunk that is no object: {chunk!r:.80}")
            return None
        error = error_in(chunk)
        if error is not None:
            self.error = error
            return None
        progressed = self._envelope(chunk)
        choices = chunk.get("choices")
        delta = Delta()
        for choice in choices if isinstance(choices, list) else []:
            progressed = self._choice(choice, delta) or progressed
        return delta if progressed or delta != Delta() else None

    def final_delta(self) -> Delta:
        """The calls, good and failed, with issues and repairs: after the deltas of `add()` this joins to `message()`."""
        rest = Delta()
        self._write_reasoning(self._halves["reasoning"].finish(), rest)
        self._write_content(self._halves["content"].finish(), rest)
        self._end_split(rest)
        message = self.message()
        return Delta(
            content=rest.content,
            reasoning=rest.reasoning,
            tool_calls=message.tool_calls,
            failed_tool_calls=message.failed_tool_calls,
            tool_call_issues=message.tool_call_issues,
            repairs=message.repairs,
        )

    def message(self) -> Message:
        """The message so far. Thoughts are in `reasoning`, whatever the peer calls them; `reasoning_field` keeps its name."""
        held = self._split.held if self._split else SplitText("", "")
        return Message(
            role="assistant",
            content="".join([*self._content, held.content]) or None,
            reasoning="".join([*self._reasoning, held.thoughts]) or None,
            tool_calls=self._calls.calls(),
            failed_tool_calls=list(self._failed),
            tool_call_issues=list(self._issues),
            repairs=list(self._repairs),
        )

    def _note(self, text: str) -> None:
        if text not in self._own_notes:
            self._own_notes.append(text)

    def _envelope(self, chunk: JsonObject) -> bool:
        """What stands beside the choices. True if it brought usage."""
        for name in ("model", "system_fingerprint"):
            if isinstance(chunk.get(name), str):
                setattr(self, name, chunk[name])
        self.warnings.extend(self._converted(chunk.get("warnings"), Warning, "warnings"))
        if isinstance(chunk.get("daneel"), dict):
            self.daneel = chunk["daneel"]
        return self._add_usage(chunk.get("usage"))

    def _add_usage(self, given: Any) -> bool:
        """The last usage counts: some peers send a running one with every chunk."""
        usage = read_usage(given)
        if usage is None:
            return False
        self.usage = usage
        self.cached_tokens = cached_tokens(given)
        return True

    def _choice(self, choice: Any, delta: Delta) -> bool:
        """One choice; only the first is read. True if it brought anything."""
        if not isinstance(choice, dict):
            self._note(f"a choice that is no object: {choice!r:.80}")
            return False
        if choice.get("index") not in (None, 0, "0"):
            self._note("more than one choice: only the first is read")
            return False
        self.num_choices_seen += 1
        self._add_usage(choice.get("usage"))
        if choice.get("error") and self.error is None:
            self.error = error_in({"error": choice["error"]})
        progressed = False
        for name in ("delta", "message"):
            part = choice.get(name)
            if isinstance(part, dict) and part:
                progressed = self._part(part, delta, whole=name == "message")
                break
        self._add_logprobs(choice.get("logprobs"))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.finish_reason = reason
            progressed = True
        return progressed

    def _add_logprobs(self, given: Any) -> None:
        """Those of content, and daneel's of calls: other peers give all tokens as content, or none."""
        for name in ("content", "tool_calls"):
            entries = given.get(name) if isinstance(given, dict) else None
            if isinstance(entries, list):
                self.logprobs.extend(entry for entry in entries if isinstance(entry, dict))

    def _part(self, part: JsonObject, delta: Delta, *, whole: bool) -> bool:
        """A `delta` or a `message`. Adds its text to `delta`; true if it brought a call, whole or not."""
        self._add_reasoning(part, delta)
        self._add_content(part.get("content"), delta)
        if isinstance(part.get("refusal"), str) and part["refusal"]:
            self.refusal = (self.refusal or "") + part["refusal"]
        brought = self._calls.add(part.get("tool_calls"), whole=whole)
        if isinstance(part.get("function_call"), dict):
            self._note("the old function_call in place of tool_calls")
            brought = self._calls.add([{"index": 0, "function": part["function_call"]}]) or brought
        failed = self._converted(part.get("failed_tool_calls"), FailedToolCall, "failed_tool_calls")
        self._failed.extend(failed)
        self._issues.extend(self._converted(part.get("tool_call_issues"), ToolCallIssue, "tool_call_issues"))
        self._repairs.extend(self._converted(part.get("repairs"), Repair, "repairs"))
        return brought or bool(failed)

    def _add_reasoning(self, part: JsonObject, delta: Delta) -> None:
        """Peers that send both names send the same text twice: the first name that holds text is read."""
        for name in REASONING_FIELDS:
            text = part.get(name)
            if isinstance(text, str) and text:
                self._end_split(delta)  # a peer that takes the thoughts out itself leaves none in the content
                self.reasoning_field = self.reasoning_field or name
                self._write_reasoning(self._halves["reasoning"].feed(text), delta)
                return

    def _add_content(self, content: Any, delta: Delta) -> None:
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            if isinstance(part, dict) and part.get("type") == "thinking":
                thought = _plain_text(part.get("thinking"))
                self._add_reasoning({"reasoning": thought}, delta)
                continue
            text = _plain_text(part)
            if text:
                self._write_content(self._halves["content"].feed(text), delta)
            elif part is not None and not isinstance(part, str) and text is None:
                self._note(f"content that is no text: {part!r:.80}")

    def _write_reasoning(self, text: str, delta: Delta) -> None:
        if text:
            self._reasoning.append(text)
            delta.reasoning = (delta.reasoning or "") + text

    def _write_content(self, text: str, delta: Delta) -> None:
        if self._split is not None and text:
            self._write_split(self._split.feed(text), self._split.tag, delta)
        elif text:
            self._content.append(text)
            delta.content = (delta.content or "") + text

    def _write_split(self, split: SplitText, tag: str | None, delta: Delta) -> None:
        if split.was_thoughts:
            self._reasoning[:0], self._content = self._content, []
        self.reasoning_field = self.reasoning_field or tag
        self._write_reasoning(split.thoughts, delta)
        if split.content:
            self._content.append(split.content)
            delta.content = (delta.content or "") + split.content

    def _end_split(self, delta: Delta) -> None:
        if self._split is not None:
            split, self._split = self._split, None
            self._write_split(split.finish(), split.tag, delta)

    def _converted(self, values: Any, kind: type[Any], field: str) -> list[Any]:
        """daneel's own additions as structs. What does not fit is noted with its text: it must not vanish."""
        read = []
        for value in values if isinstance(values, list) else []:
            try:
                read.append(msgspec.convert(value, kind))
            except msgspec.ValidationError as error:
                self._note(f"{field} holds what is not of its kind ({error}): {value!r:.2000}")
        return read


def _plain_text(part: Any) -> str | None:
    """The text of a content part, a list of them, or a string; `None` if it has none."""
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part, list):
        return "".join(_plain_text(inner) or "" for inner in part)
    return None
