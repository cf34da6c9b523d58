"""The context of the server, seen from one run: how full it is, when the conversation is made shorter, what the counts say.

The loop asks three things: `fit()` before a request, `fit_after()` when a server has refused one as too long, and `see()` for
the count that comes with a reply. Between two compactions what is sent is only ever added to, so that the server's cache holds
it. A run that is rebuilt from its record is made shorter where it was then, and in the same words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from daneel.harness.client_errors import ClientError, ContextOverflow, ErrorInStream
from daneel.harness.compaction import Compactor, Piece, Tier, cut_results, pieces_of
from daneel.harness.context_view import BadView, pieces_in, view_of
from daneel.harness.definition import Harness
from daneel.harness.overflow import Overflow, read_overflow, says_overflow
from daneel.harness.reply import Reply
from daneel.harness.run_record import JsonObject
from daneel.harness.server_profile import profile_of
from daneel.harness.stop import Stop
from daneel.harness.summary import Summariser
from daneel.harness.token_estimate import Rate, Size, declarations_bytes, size_of, sizes_of
from daneel.harness.usage_check import Counted, UsageCheck

if TYPE_CHECKING:
    from daneel.harness.session import Session

Reason = Literal["estimate", "overflow"]

WORTH_SHARE = 0.05
"""A compaction that saves less than this is not made: it would cost the server's cache for nothing."""
MIN_REPLY_TOKENS = 16
MAX_REFUSALS = 4
"""How often one request is made shorter after a refusal. Once is enough where the server tells its figures."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The request on its way."""

    size: Size
    num_bytes: int
    key: tuple[str, ...]
    tokens: int
    is_whole: bool
    """Not one that goes on with a text of the model's."""


class Context:
    """See the module. `tokens`: the context, as far as it is known."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.policy = session.harness.context
        self.tokens: int | None = self.policy.context_tokens
        self.rate = Rate()
        self.check = UsageCheck()
        self._learned: int | None = None
        self._caps_reply = False
        self._num_refusals = 0
        self._changed: list[Piece] = []
        """What is sent otherwise than it is on record, from the first message to the last that has been changed."""
        self._size = Size()
        self._num_measured = 0
        self._asked: Asked | None = None
        self._tools: tuple[Harness | None, int, str] = (None, 0, "")

    def fit(self) -> None:
        """Make the conversation shorter if it comes near the context."""
        self._num_refusals = 0
        if self._from_record("estimate"):
            return
        self._read_context()
        budget = self._budget()
        if budget is None:
            return
        before = self.estimate()
        if before > self.policy.compact_at * budget:
            self._compact("estimate", before, budget)

    def fit_after(self, error: ClientError) -> bool:
        """Whether there is now a shorter request to make, after the server has refused one."""
        found = overflow_of(error)
        self._num_refusals += 1
        if found is None or error.started or self._num_refusals > MAX_REFUSALS:
            return False
        changed = self._learn(found)
        if self._from_record("overflow"):
            return True
        past = self._session.recorder.past
        if past is not None and past.has_answer:
            return True
        budget = self._budget()
        return (budget is not None and self._compact("overflow", self.estimate(), budget)) or changed

    def asked(self, params: JsonObject, *, continues: bool) -> None:
        """The request that is now sent, with the conversation as it stands."""
        size, (_, tools_bytes, tools) = self._measured(), self._declared()
        num_bytes = size.num_bytes + tools_bytes
        variables = json.dumps(params.get("chat_template_kwargs"), sort_keys=True, default=str)
        key = (tools, str(params.get("tool_choice") == "none"), variables)
        self._asked = Asked(size, num_bytes, key, self.rate.tokens(num_bytes), not continues)

    def about(self, reply: Reply) -> JsonObject:
        """For the record of a reply: what its prompt was reckoned at, and the share that came from the server's cache."""
        usage, share = reply.usage, None
        if usage is not None and reply.cached_tokens is not None and 0 < usage.prompt_tokens >= reply.cached_tokens:
            share = round(reply.cached_tokens / usage.prompt_tokens, 4)
        return {"estimated_prompt_tokens": self._asked.tokens if self._asked else None, "cached_share": share}

    def see(self, reply: Reply) -> None:
        """Learn from the server's count. Raises Stop when it shows that the prompt was cut."""
        usage, asked = reply.usage, self._asked
        if usage is None or asked is None or not usage.prompt_tokens or not asked.is_whole:
            return
        counted = Counted(asked.size, usage.prompt_tokens, reply.cached_tokens, reply.server, asked.key)
        # daneel's server refuses what does not fit; its prompts may shrink, since it tells small models of results its own way
        watched = self.policy.check_usage and not self._session.conversation.is_daneel
        found = self.check.see(counted, self.tokens) if watched else None
        if found is not None:
            raise Stop("invalid", found)
        if self.check.counts_all:
            self.rate.learn(asked.num_bytes, usage.prompt_tokens)

    def told_again(self) -> list[tuple[int, int]]:
        """Where the messages on record stand that are sent as a list or a summary of old turns."""
        return [(piece.first, piece.end) for piece in self._changed if piece.note is not None]

    def estimate(self) -> int:
        """About how many tokens the next prompt is."""
        return self.rate.tokens(self._measured().num_bytes + self._fixed_bytes())

    def capped(self, max_tokens: int | None) -> int | None:
        """The length to ask a reply for: less than wanted where the server refuses what may not fit."""
        if max_tokens is None or not self._caps_reply or self.tokens is None:
            return max_tokens
        left = round(0.98 * self.tokens) - self.estimate() - MIN_REPLY_TOKENS
        return max(MIN_REPLY_TOKENS, min(max_tokens, left))

    def _budget(self) -> int | None:
        """Tokens that are there for the prompt."""
        if self.tokens is None:
            return None
        return self.tokens - self.policy.reserve(self.tokens, self._session.harness.max_tokens)

    def _read_context(self) -> None:
        if self.policy.context_tokens is not None:
            return
        read = getattr(self._session.client, "served_context", None)
        served = (read() if read is not None else None) or profile_of(self._session.client).context_tokens
        known = [tokens for tokens in (served, self._learned) if tokens]
        tokens = min(known) if known else None
        if tokens != self.tokens:
            self.tokens = tokens
            self._session.recorder.event("context", tokens=tokens, served=served, learned=self._learned)

    def _learn(self, found: Overflow) -> bool:
        """Take in what an overflow tells. Whether that alone makes another request of it."""
        asked = self._asked
        if found.prompt_tokens is not None and asked is not None:
            self.rate.learn(asked.num_bytes, found.prompt_tokens)
        told = found.context_tokens or (found.prompt_tokens if not found.counts_reply else None) or self.estimate()
        self._learned = min(told, self._learned or told)
        if self.policy.context_tokens is None:
            self.tokens = min(self._learned, self.tokens or self._learned)
        was, wanted = self._caps_reply, self._session.harness.max_tokens
        self._caps_reply = was or found.counts_reply
        return self._caps_reply and not was and self.capped(wanted) != wanted

    def _compact(self, reason: Reason, before: int, budget: int) -> bool:
        session, policy = self._session, self.policy
        per_byte, fixed = self.rate.tokens_per_byte, self._fixed_bytes()
        was = pieces_of(session.conversation.messages, self._changed)
        summariser = Summariser(session, max_bytes=round(budget / 2 / per_byte))
        compactor = self._compactor(summariser)
        pieces: list[Piece] = was
        tiers: list[Tier] = []
        after = plainly = round((sizes_of(piece.message for piece in was).num_bytes + fixed) * per_byte)
        for keep in dict.fromkeys((policy.keep_turns, 1)):
            pieces, took = compactor.compact(
                pieces,
                target_bytes=round(budget * policy.compact_to / per_byte) - fixed,
                list_bytes=round(budget * policy.list_share / per_byte),
                keep=keep,
            )
            tiers += [tier for tier in took if tier not in tiers]
            after = round((sizes_of(piece.message for piece in pieces).num_bytes + fixed) * per_byte)
            if after <= policy.compact_at * budget:
                break
        too_much = after > budget or (reason == "overflow" and after > (1 - WORTH_SHARE) * plainly)
        if too_much and (policy.shorten_results or policy.fold_turns):
            # the last turns by themselves are too much: it is this or the end of the run
            share = policy.compact_at if reason == "estimate" else policy.compact_to
            pieces = cut_results(pieces, round(share * budget / per_byte) - fixed)
            after = round((sizes_of(piece.message for piece in pieces).num_bytes + fixed) * per_byte)
            tiers.append("cut")
        if not tiers or after > (1 - WORTH_SHARE) * plainly:
            return False
        self._apply(pieces)
        session.recorder.event(
            "compacted",
            reason=reason,
            tiers=tiers,
            before_tokens=before,
            after_tokens=after,
            context_tokens=self.tokens,
            num_messages=len(session.conversation.sent),
            **summariser.used(),
            question_at=session.conversation.heard_at[0],
            view=view_of(self._changed),
        )
        session.meter.add_summaries(**summariser.used())
        return True

    def _compactor(self, summariser: Summariser) -> Compactor:
        session = self._session
        tools = [tool for tool in session.harness.tools if tool.effects <= {"read"} and tool.gates.max_calls is None]
        names = {tool.name for tool in tools} - set(session.harness.max_calls)
        conversation = session.conversation
        return Compactor(
            self.policy,
            session.harness.recovery,
            conversation.heard_at,
            conversation.is_daneel,
            names,
            summariser.summarise,
            conversation.messages,
        )

    def _apply(self, pieces: Sequence[Piece]) -> None:
        last = max((place for place, piece in enumerate(pieces) if piece.is_changed), default=-1)
        self._changed = list(pieces[: last + 1])
        conversation = self._session.conversation
        sent = [piece.message for piece in pieces_of(conversation.messages, self._changed)]
        added = [piece.message for piece in self._changed if piece.first == piece.end]
        conversation.rewrite(sent, notices=added)
        self._size, self._num_measured = Size(), 0
        self.rate.forget()
        self.check.forget()
        self._session.detectors.forget_results()

    def _from_record(self, reason: Reason) -> bool:
        """Whether a run on record says what is to be done here; if it has been made shorter here, it is so again."""
        session = self._session
        past = session.recorder.past
        if past is None:
            return False
        event = past.next_of("compacted")
        if event is None or event.turn != session.recorder.turn or event.data.get("reason") != reason:
            return past.has_answer and reason == "estimate"
        try:
            self._apply(pieces_in(event.data, session.conversation.messages, session.conversation.heard_at[0]))
        except BadView:
            return False
        session.recorder.event("compacted", **event.data)
        session.meter.add_summaries(
            summaries=int(event.data.get("summaries") or 0), summary_tokens=int(event.data.get("summary_tokens") or 0)
        )
        return True

    def _measured(self) -> Size:
        sent = self._session.conversation.sent
        for message in sent[self._num_measured :]:
            self._size += size_of(message)
        self._num_measured = len(sent)
        return self._size

    def _fixed_bytes(self) -> int:
        """What comes to the messages: the tools, and what is still to be said."""
        return self._declared()[1] + sum(len(text.encode("utf-8", "replace")) for text in self._session.conversation.to_say)

    def _declared(self) -> tuple[Harness | None, int, str]:
        shown = self._session.gates.shown
        if self._tools[0] is not shown:
            declarations = shown.declarations()
            self._tools = shown, declarations_bytes(declarations), ",".join(tool.name for tool in shown.tools)
        return self._tools


def overflow_of(error: ClientError) -> Overflow | None:
    """What the error tells of a prompt that did not fit; None when it is about something else."""
    if isinstance(error, ContextOverflow):
        return read_overflow(error.error.message)
    if isinstance(error, ErrorInStream):
        said = error.error
        if says_overflow(said.message, kind=said.type, code=said.code):
            return read_overflow(said.message)
    return None
