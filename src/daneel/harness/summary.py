"""A summary of old turns, written by the model: a request of its own, which is no turn and is counted apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daneel.harness.client_errors import ClientError, RequestCancelled
from daneel.harness.compaction import Note, cut_to
from daneel.harness.conversation import RELEASED
from daneel.harness.next_request import NO_THOUGHTS, TEMPLATE_VARIABLES
from daneel.harness.reply import Reply
from daneel.harness.retelling import SHOWN_DATA, is_fenced, transcript
from daneel.harness.run_record import JsonObject
from daneel.harness.safety.untrusted import defused, fence

if TYPE_CHECKING:
    from daneel.harness.session import Session

ONLY_FOR_TURNS = ("response_format", "tool_choice", "parallel_tool_calls", "grammar", "json_schema", "stop", "n")
"""Fields of a harness's sampling that shape a turn, and would misshape a summary."""
FENCE_NAME = "earlier results"
MIN_SUMMARY_CHARS = 20


class Summariser:
    """Asks for summaries, while a conversation is made shorter. `max_bytes`: of the request."""

    def __init__(self, session: Session, *, max_bytes: int) -> None:
        self._session = session
        self._max_bytes = max_bytes
        self._count = self._tokens = 0

    def used(self) -> dict[str, int]:
        """How many summaries were asked for, and their tokens."""
        return {"summaries": self._count, "summary_tokens": self._tokens}

    def summarise(self, note: Note, first: int, end: int, num_bytes: int) -> str | None:
        """What happened in these messages of the record, in at most so many bytes; None when the model gives nothing useful."""
        session = self._session
        on_record = session.conversation.messages[max(first, note.summarised_to) : end]
        messages = [message for message in on_record if message is not RELEASED]
        # of messages that the run does not hold any more, their lines are left
        before = note.summary if len(messages) == len(on_record) else "\n".join([note.summary, *note.lines])
        question, before = session.conversation.question, before.strip() or "-"
        words = session.harness.recovery.summary_request
        empty = words.format(question=question, summary=before, transcript="")
        room = self._max_bytes - len(empty.encode("utf-8", "replace"))
        # characters of more than one byte make it shorter, never longer
        told = cut_to(transcript(messages, room), max(0, room))
        if not told:
            return None
        try:
            reply = self._ask(words.format(question=question, summary=before, transcript=told))
        except RequestCancelled:
            raise
        except ClientError as error:
            session.recorder.event("summary_failed", error=f"{type(error).__name__}: {error}")
            return None
        text = (reply.message.content or "").strip()
        if reply.usage is not None:
            self._tokens += reply.usage.prompt_tokens + reply.usage.completion_tokens
        if len(text) < MIN_SUMMARY_CHARS:
            session.recorder.event("summary_failed", error=f"the model wrote {text!r}, {reply.finish_reason}")
            return None
        session.recorder.event("summary", text=text, finish_reason=reply.finish_reason, duration_s=reply.duration_s)
        sources = [note.summary, *note.lines, *(str(message.get("content") or "") for message in messages)]
        if any(is_fenced(source) or SHOWN_DATA in source for source in sources):
            # what others wrote may speak in it: it stays what it was, data
            around = len(fence("", FENCE_NAME).encode())
            return fence(cut_to(text, num_bytes - around), FENCE_NAME)
        return cut_to(defused(text), num_bytes)

    def _ask(self, prompt: str) -> Reply:
        session = self._session
        harness, policy = session.harness, session.harness.context
        params: JsonObject = {name: value for name, value in harness.sampling.items() if name not in ONLY_FOR_TURNS}
        if harness.temperature is not None:
            params["temperature"] = harness.temperature
        if session.seed is not None:
            params["seed"] = session.seed
        params["max_tokens"] = policy.summary_tokens
        if session.conversation.is_daneel or TEMPLATE_VARIABLES in params:
            params[TEMPLATE_VARIABLES] = {**(params.get(TEMPLATE_VARIABLES) or {}), **NO_THOUGHTS}
        self._count += 1
        return session.client.chat(
            [{"role": "user", "content": prompt}],
            params=params,
            stream=session.stream,
            timeout_s=session.meter.seconds_left(),
        )
