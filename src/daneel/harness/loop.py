"""READ FIRST: the agent loop. Query the model, make its calls, append the results, until there is a reason to stop.

`run()` is the whole of it: `_take_turns()` asks and answers until something raises `Stop`, and then the record is closed.
A call that the model wrote is made, or the model is told what was wrong with it, or the run stops with a named reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import NoReturn

from daneel.formats.family import Family
from daneel.harness.answers import CUT_OFF, answer_or_go_on, more_room, settled, without
from daneel.harness.client_errors import ClientError, ContextOverflow, ErrorInStream, RequestTimeout, ServerRefused
from daneel.harness.definition import Harness
from daneel.harness.execute import execute
from daneel.harness.inbox import Inbox, hear
from daneel.harness.next_request import Changes, request_params
from daneel.harness.past import Past
from daneel.harness.peer import ChatClient, error_data, reply_data
from daneel.harness.recorder import Observer, Recorder, TranscriptSink
from daneel.harness.recovery import Attempt, read_calls
from daneel.harness.reply import Reply
from daneel.harness.result_style import plain_family
from daneel.harness.run_record import Run
from daneel.harness.safety.approvals import Approver
from daneel.harness.safety.secrets import redaction
from daneel.harness.server_profile import profile_of
from daneel.harness.session import Session, stop_of
from daneel.harness.stop import Stop
from daneel.harness.stream_watch import Repeating, StreamWatch
from daneel.harness.stuck import act, noted, seen
from daneel.harness.tools.builtin.submit import submitted


def run(
    harness: Harness,
    prompt: str,
    *,
    client: ChatClient,
    observer: Observer | None = None,
    transcript: TranscriptSink | None = None,
    seed: int | None = None,
    stream: bool = True,
    inbox: Inbox | None = None,
    past: Past | None = None,
    approver: Approver | None = None,
) -> Run:
    """Run `harness` on `prompt` until it stops; the reason is in the record. Ctrl-C ends it as `cancelled`.

    With an `inbox` it is a conversation: what comes in there is heard at the next turn's boundary, and the run ends when
    nothing more comes. With a `past`, the run on record goes on; raises Diverged when the harness does something else.

    Raises nothing of the server's or the tools': those end as a stop reason, or as what the model is told.
    """
    redact = redaction(wanted=harness.safety.redact)
    session = Session(harness, client, Recorder(observer, transcript, past=past, redact=redact), seed, stream, approver)
    session.inbox = inbox
    if past is not None:
        session.go_on_from(past)
    try:
        session.begin(prompt)
        _take_turns(session)
    except (Stop, ClientError, KeyboardInterrupt) as end:
        return session.close(stop_of(end))


def _take_turns(session: Session) -> NoReturn:
    while True:
        try:
            _take_turn(session)
        except (Stop, ClientError, KeyboardInterrupt) as end:
            if session.inbox is None:
                raise
            session.go_on(end)


def _take_turn(session: Session) -> None:
    if session.inbox is not None and hear(session.inbox.take(), session.conversation, session.recorder):
        session.renew()
    session.long_run.tidy()
    session.meter.check()
    reply = _ask(session)
    attempts = _calls_of(session, reply)
    if attempts:
        session.conversation.add_reply(reply.message, attempts, reasoning_field=reply.reasoning_field)
        _make_calls(session, attempts)
    else:
        answer_or_go_on(session, reply)


def _ask(session: Session) -> Reply:
    """One turn: the whole conversation to the server, one completed reply back."""
    meter, recorder = session.meter, session.recorder
    recorder.turn = meter.turns + 1
    if meter.is_last_turn() and not session.is_closing:
        session.tell("last_turn", session.harness.recovery.last_turn)
    session.is_closing = meter.is_last_turn()
    if (note := session.gates.start_turn()) is not None:
        session.tell("tools_now", note)
    reply = _chat_or_without_changes(session)
    meter.turns += 1
    meter.add_usage(reply.usage)
    session.model = reply.model or session.model
    for moved in reply.failovers:
        recorder.event("failed_over", **asdict(moved))
    recorder.event("reply", **reply_data(reply), **session.context.about(reply))
    for warning in reply.warnings:
        session.warn(field=warning.field, action=warning.action, detail=warning.detail)
    session.context.see(reply)
    return settled(session, reply)


def _chat_or_without_changes(session: Session) -> Reply:
    changes = session.changes
    try:
        return _chat_in_context(session)
    except ServerRefused as error:
        made = changes.made()
        if not made or isinstance(error, ContextOverflow) or error.status not in (400, 413, 422, 500, 501):
            raise
        # the changes were ours, not the harness's: a server that cannot take them is asked without
        session.recorder.event("changes_refused", changes=made, error=str(error))
        session.refused.update(made)
        without(session, changes)
        return _chat_in_context(session)


def _chat_in_context(session: Session) -> Reply:
    """The conversation is made shorter before it comes near the server's context, and after a refusal if it did not fit."""
    changes = session.changes
    session.context.fit()
    while True:
        try:
            return _chat(session)
        except (ContextOverflow, ErrorInStream) as error:
            if not session.context.fit_after(error):
                raise
            session.changes = changes


def _chat(session: Session) -> Reply:
    """One request, and its reply; the changes for it are used up."""
    if session.changes.continues is not None and session.conversation.has_to_say:
        without(session, session.changes)  # something else comes between
    harness, changes = session.gates.shown, session.changes
    params = request_params(session, first=session.meter.turns == 0)
    session.changes = Changes()
    messages = session.conversation.ready(plain=_plain_family(session))
    if changes.continues is not None:
        messages = [*messages, {"role": "assistant", "content": changes.continues}]
        session.continued = changes.continues
    session.context.asked(params, continues=changes.continues is not None)
    session.recorder.event("request", num_messages=len(messages), params=params, **session.gates.visible())
    watch = StreamWatch(session.recorder.delta, stops=harness.recovery.stop_repeating_text)
    try:
        return session.client.chat(
            messages,
            tools=harness.declarations(),
            params=params,
            stream=session.stream,
            on_delta=watch.on_delta if session.stream else None,
            timeout_s=session.meter.seconds_left(),
        )
    except Repeating:
        return watch.reply()
    except ClientError as error:
        session.recorder.event("request_failed", **error_data(error))
        if isinstance(error, RequestTimeout):
            raise Stop("time_limit", str(error)) from error
        raise


def _plain_family(session: Session) -> Family | None:
    """In whose words results are told, where they are told plainly; said once where the harness leaves it open."""
    style = session.harness.tool_result_style
    family = plain_family(style, profile_of(session.client), session.model)
    if family is not None and style == "auto" and not session.conversation.is_daneel:
        session.once("result_style", style="plain", family=family.full_name, model=session.model)
    return family


def _calls_of(session: Session, reply: Reply) -> list[Attempt]:
    """The calls of a reply, repaired where that is certain; calls that a server left as text included."""
    conversation, harness = session.conversation, session.gates.shown
    truncated = reply.finish_reason in CUT_OFF
    if harness.recovery.rescue_text_calls and not reply.message.tool_calls and not reply.message.failed_tool_calls:
        rescued = session.text_calls.rescue(reply.message, harness, truncated=truncated, made=session.calls)
        for call in rescued:
            session.recorder.event("text_call", name=call.name, raw=call.raw)
    attempts = read_calls(reply.message, harness, truncated=truncated, next_id=conversation.next_id)
    session.gates.read(attempts)
    conversation.make_ids_unique(attempts)
    for repair in reply.message.repairs:
        session.recorder.event("repaired", id=repair.tool_call_id, repair=repair.kind, before=repair.raw, by="server")
    for attempt in attempts:
        for fixed in attempt.repairs:
            session.recorder.event("repaired", id=attempt.id, name=attempt.name, **fixed)
    return attempts


def _make_calls(session: Session, attempts: Sequence[Attempt]) -> None:
    outcomes = execute(
        attempts,
        recorder=session.recorder,
        meter=session.meter,
        calls=session.calls,
        gates=session.gates,
        guard=session.guard,
    )
    firings = session.detectors.turn([seen(*pair) for pair in zip(attempts, outcomes, strict=True)])
    session.conversation.add_results(attempts, noted(session, firings, [outcome.text for outcome in outcomes]))
    if (answer := submitted(attempts, outcomes)) is not None:
        raise Stop("answered", answer=answer)
    if any(attempt.problem is not None and attempt.problem.kind == "truncated" for attempt in attempts):
        more_room(session)
    else:
        session.truncations = 0
    session.repetitions = 0
    act(session, firings)
    if any(outcome.was_made for outcome in outcomes):
        session.failures = 0
    else:
        session.fail(outcomes[-1].record.error or "")
