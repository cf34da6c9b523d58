"""A reply without calls: the answer, or one of the ways in which there is none. Each has its own reply and its own changes.

| what came | what the model is told, and what the next request has |
|---|---|
| nothing at all | to call a tool or to answer |
| thoughts, and then nothing | to answer; thoughts off |
| thoughts, cut off by the limit | to answer; thoughts off, more room |
| text, cut off by the limit | on daneel's server nothing: it goes on where it stopped; else to be shorter, with more room |
| text or thoughts that repeat themselves | to answer; what was said before that is kept |
| a call announced in prose | to make it; `tool_choice` names it |
"""

from __future__ import annotations

from daneel.harness.detectors.announced import announced
from daneel.harness.detectors.repeating_text import Repetition
from daneel.harness.next_request import Changes
from daneel.harness.reply import Reply
from daneel.harness.session import Session
from daneel.harness.stop import Stop
from daneel.harness.stream_watch import REPETITION, keep_prefix, repetition_in

LENGTH_REASONS = ("length", "max_tokens", "model_length")
"""How servers word it that a limit ended the reply."""

CUT_OFF = (*LENGTH_REASONS, REPETITION)

SHOWN_UNIT_CHARS = 200


def settled(session: Session, reply: Reply) -> Reply:
    """The reply as the rest of the turn sees it: joined to the text it continues, and without what only repeats."""
    message, continued = reply.message, session.continued
    session.continued = None
    if continued is not None:
        raw = str((reply.daneel or {}).get("raw_text") or "")
        has_seam = not message.content or message.content[0].isspace()
        seam = "" if has_seam else raw[: len(raw) - len(raw.lstrip())]
        message.content = continued + seam + (message.content or "")
        message.reasoning = message.reasoning or session.kept_thoughts
    session.kept_thoughts = None
    session.repeating = repetition_in(message) if reply.finish_reason in CUT_OFF else None
    if session.repeating is not None:
        keep_prefix(message, session.repeating)
    return reply


def answer_or_go_on(session: Session, reply: Reply) -> None:
    """Take the answer, or say what is wrong. Raises Stop for the answer."""
    content = (reply.message.content or "").strip()
    if session.repeating is None:
        session.repetitions = 0
    if session.repeating is None and reply.finish_reason in LENGTH_REASONS and _continue(session, reply, content):
        return
    session.conversation.add_reply(reply.message, (), reasoning_field=reply.reasoning_field)
    if reply.finish_reason == "content_filter" or (reply.refusal and not content):
        raise Stop("refused", reply.refusal or "the server's content filter ended the reply")
    if session.repeating is not None:
        _repeating(session, session.repeating)
    elif reply.finish_reason in CUT_OFF:
        _cut_off(session, thinking=not content and bool(reply.message.reasoning))
    elif not content:
        _empty(session, thinking=bool(reply.message.reasoning))
    else:
        session.truncations = 0
        _announced_or_answered(session, content)


def more_room(session: Session) -> list[str]:
    """A reply was cut off: the next may be longer, and longer again if that one is cut off as well."""
    session.truncations += 1
    policy = session.harness.recovery
    return session.change(budget_factor=min(2**session.truncations, policy.max_budget_factor))


def without(session: Session, changes: Changes) -> None:
    """The changes cannot be made after all: a text that was to go on becomes a message, and the model is told to be shorter."""
    session.changes = Changes()
    session.continued = None
    if changes.continues is not None:
        session.conversation.add_text(changes.continues)
        session.tell("truncated_reply", session.harness.recovery.truncated_reply)


def _continue(session: Session, reply: Reply, content: str) -> bool:
    """Whether the text goes on where it stopped, in the same message: daneel's server can do that."""
    policy, message = session.harness.recovery, reply.message
    may = policy.continue_truncated and session.truncations < policy.max_continuations
    if not (may and content and session.conversation.is_daneel):
        return False
    # white space at the end is left to the model: not every template keeps it, and then it would come twice
    changes = session.change(continues=(message.content or "").rstrip())
    if not changes:
        return False
    session.kept_thoughts = message.reasoning
    session.recorder.event("continued", changes=[*changes, *more_room(session)])
    return True


def _repeating(session: Session, found: Repetition) -> None:
    session.repetitions += 1
    policy = session.harness.recovery
    stops = session.repetitions >= policy.repetition_stop_at
    detail = f"the {'thoughts' if found.kind == 'reasoning' else 'text'} repeated {found.unit[:SHOWN_UNIT_CHARS]!r}"
    session.recorder.event(
        "detected",
        detector="repeating_text",
        grade="stop" if stops else "note",
        times=found.times,
        names=[],
        detail=detail,
    )
    if stops:
        raise Stop("loop", f"in {session.repetitions} replies in a row {detail}")
    changes = session.change(thinking_off=True) if found.kind == "reasoning" else []
    session.tell("repeating_reply", policy.repeating_reply.format(question=session.conversation.question), changes=changes)
    session.fail(detail)


def _cut_off(session: Session, *, thinking: bool) -> None:
    policy = session.harness.recovery
    changes = more_room(session)
    if thinking:
        changes += session.change(thinking_off=True)
        session.tell(
            "truncated_thought", policy.truncated_thought.format(question=session.conversation.question), changes=changes
        )
    else:
        session.tell("truncated_reply", policy.truncated_reply, changes=changes)
    session.fail("the thoughts were cut off" if thinking else "the reply was cut off at the length limit")


def _empty(session: Session, *, thinking: bool) -> None:
    policy, question = session.harness.recovery, session.conversation.question
    session.truncations = 0
    if thinking:
        changes = session.change(thinking_off=True)
        session.tell("only_thoughts", policy.only_thoughts.format(question=question), changes=changes)
    else:
        wording = policy.empty_after_results if session.calls else policy.empty_reply
        session.tell("empty_reply", wording.format(question=question))
    session.fail("the reply was empty")


def _announced_or_answered(session: Session, content: str) -> None:
    names = _announced(session, content)
    if not names:
        raise Stop("answered", answer=content)
    session.announcements += 1
    changes = session.change(tool_choice=names[0] if len(names) == 1 else "required")
    text = session.harness.recovery.announced_call.format(names=", ".join(names))
    session.tell("announced_call", text, names=names, changes=changes)


def _announced(session: Session, content: str) -> list[str]:
    """Tools that an answer announces instead of calling them; none when the run has no turn or no patience left for it."""
    harness = session.harness
    if session.announcements >= harness.recovery.max_announcement_replies or harness.tool_choice == "none":
        return []
    if session.meter.turns_left() == 0:
        return []
    called = {call.name for call in session.calls if call.name is not None and call.result is not None}
    called |= session.long_run.called
    return announced(content, session.gates.open_names(), called)
