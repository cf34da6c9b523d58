"""READ FIRST: the agent loop. Query the model, make its calls, append the results, until there is a reason to stop.

`run()` is the whole of it: `_take_turns()` asks and answers until something raises `Stop`, and then the record is closed.
A call that the model wrote is made, or the model is told what was wrong with it, or the run stops with a named reason.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

from daneel.harness.client_errors import ClientError, RequestTimeout, ServerRefused
from daneel.harness.conversation import Conversation
from daneel.harness.definition import Harness
from daneel.harness.detect import RepeatDetector, announced
from daneel.harness.execute import Outcome, execute
from daneel.harness.gatekeeper import Gatekeeper
from daneel.harness.inbox import Inbox, go_on, hear, settle
from daneel.harness.limits import Meter
from daneel.harness.past import Past
from daneel.harness.peer import ChatClient, error_data, reply_data, stop_for
from daneel.harness.recorder import Observer, Recorder, TranscriptSink
from daneel.harness.recovery import Attempt, read_calls
from daneel.harness.reply import Reply
from daneel.harness.run_record import CallRecord, JsonObject, Run
from daneel.harness.safety.approvals import Approver
from daneel.harness.safety.guard import Guard
from daneel.harness.stop import Stop
from daneel.harness.text_calls import rescue

LENGTH_REASONS = ("length", "max_tokens", "model_length")
"""How servers word it that a limit ended the reply."""


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
    session = _Session(harness, client, Recorder(observer, transcript, past=past), seed, stream, approver)
    session.inbox = inbox
    if past is not None:
        session.go_on_from(past)
    try:
        session.begin(prompt)
        _take_turns(session)
    except (Stop, ClientError, KeyboardInterrupt) as end:
        return session.close(_stop_of(end))


def _take_turns(session: _Session) -> NoReturn:
    while True:
        try:
            _take_turn(session)
        except (Stop, ClientError, KeyboardInterrupt) as end:
            if session.inbox is None:
                raise
            session.go_on(end)


def _take_turn(session: _Session) -> None:
    if session.inbox is not None and hear(session.inbox.take(), session.conversation, session.recorder):
        session.renew()
    session.meter.check()
    reply = _ask(session)
    attempts = _calls_of(session, reply)
    session.conversation.add_reply(reply.message, attempts, reasoning_field=reply.reasoning_field)
    if attempts:
        _make_calls(session, attempts)
    else:
        _answer_or_go_on(session, reply)


def _stop_of(end: BaseException) -> Stop:
    if isinstance(end, ClientError):
        return stop_for(end)
    return end if isinstance(end, Stop) else Stop("cancelled", "interrupted")


@dataclass
class _Session:
    """One run while it is on."""

    harness: Harness
    client: ChatClient
    recorder: Recorder
    seed: int | None
    stream: bool
    approver: Approver | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    calls: list[CallRecord] = field(default_factory=list)
    inbox: Inbox | None = None
    repeats: RepeatDetector = field(default_factory=RepeatDetector)
    failures: int = 0
    """Turns in a row that neither called a tool nor answered."""
    announcements: int = 0
    warnings: list[dict[str, str]] = field(default_factory=list)
    next_tool_choice: str | None = None
    """For the next turn only, wins over the harness's."""

    def __post_init__(self) -> None:
        self.meter = Meter(self.harness)
        self.gates = Gatekeeper(self.harness, self.calls, self.recorder)
        self.guard = Guard(self.harness.safety, self.approver, self.recorder.event)
        self.conversation = Conversation(
            is_daneel=False, on_message=lambda message: self.recorder.event("message", message=message)
        )

    def go_on_from(self, past: Past) -> None:
        """First comes what is on record, see `past.py`; then the run goes on, its clock where it stood."""
        self.id = past.run_id
        self.client = past.client(self.client, on_live=self.recorder.wake)
        self.recorder.on_wake = lambda: self.meter.go_on(past.elapsed_s)

    def begin(self, prompt: str) -> None:
        about = {
            "harness": self.harness.name,
            "harness_hash": self.harness.fingerprint(),
            "harness_parts": self.harness.parts(),
            "prompt": prompt,
            "seed": self.seed,
            "stream": self.stream,
            "tools": self.harness.declarations(),
        }
        self.recorder.begin(self.id, about)
        self.conversation.start(self.harness.system, prompt)
        self.conversation.is_daneel = self.client.is_daneel
        self.recorder.event("peer", is_daneel=self.conversation.is_daneel)

    def close(self, stop: Stop) -> Run:
        self.recorder.event("stop", reason=stop.reason, detail=stop.detail, answer=stop.answer)
        run = Run(
            self.id,
            stop.reason,
            stop.answer,
            self.meter.turns,
            self.calls,
            self.meter.usage,
            self.conversation.messages,
            self.recorder.events,
            self.meter.duration_s,
            stop.detail,
            self.harness.fingerprint(),
            self.seed,
        )
        self.recorder.end(run)
        return run

    def go_on(self, end: BaseException) -> None:
        """The run would end here: it goes on if a person says more, else it ends."""
        stop = _stop_of(end)
        settle(self.conversation, self.calls, self.harness.recovery)
        if self.inbox is None or not go_on(self.inbox, stop, self.recorder, self.conversation):
            raise stop
        self.renew()

    def renew(self) -> None:
        """A person has spoken: limits and counts of what went wrong begin anew."""
        self.meter.renew()
        self.repeats = RepeatDetector()
        self.failures = self.announcements = 0
        self.next_tool_choice = None

    def tell(self, kind: str, text: str, **data: Any) -> None:
        """Say something to the model before the next turn, and record that."""
        self.recorder.event(kind, text=text, **data)
        self.conversation.say(text)

    def warn(self, **warning: str) -> None:
        """The server, or the client, did not honour a request field. Said once per run, not once per turn."""
        if warning not in self.warnings:
            self.warnings.append(warning)
            self.recorder.event("warning", **warning)

    def fail(self, detail: str) -> None:
        """A turn brought nothing. Too many of them in a row end the run."""
        self.failures += 1
        if self.failures >= self.harness.recovery.max_consecutive_failures:
            raise Stop("gave_up", f"{self.failures} turns in a row brought nothing; the last: {detail}")


def _ask(session: _Session) -> Reply:
    """One turn: the whole conversation to the server, one completed reply back."""
    meter, recorder = session.meter, session.recorder
    recorder.turn = meter.turns + 1
    if meter.is_last_turn():
        session.tell("last_turn", session.harness.recovery.last_turn)
    if (note := session.gates.start_turn()) is not None:
        session.tell("tools_now", note)
    forced, session.next_tool_choice = session.next_tool_choice, None
    try:
        reply = _chat(session, forced)
    except ServerRefused as error:
        if forced is None or error.status not in (400, 422, 500, 501):
            raise
        # the choice was ours, not the harness's: a server that cannot take it is asked without
        recorder.event("tool_choice_refused", tool_choice=forced, error=str(error))
        reply = _chat(session, None)
    meter.turns += 1
    meter.add_usage(reply.usage)
    for moved in reply.failovers:
        recorder.event("failed_over", **asdict(moved))
    recorder.event("reply", **reply_data(reply))
    for warning in reply.warnings:
        session.warn(field=warning.field, action=warning.action, detail=warning.detail)
    return reply


def _chat(session: _Session, forced_choice: str | None) -> Reply:
    harness = session.gates.shown
    params: JsonObject = dict(harness.sampling)
    for name, value in (("temperature", harness.temperature), ("max_tokens", harness.max_tokens), ("seed", session.seed)):
        if value is not None:
            params[name] = value
    first = harness.first_tool_choice if session.meter.turns == 0 else None
    choice = session.gates.choice(forced_choice or first or harness.tool_choice)
    if harness.tools and choice != "auto":
        named = {"type": "function", "function": {"name": choice}}
        params["tool_choice"] = choice if choice in ("none", "required") else named
    if session.conversation.is_daneel and harness.tool_result_style != "auto":
        params["tool_result_style"] = harness.tool_result_style
    messages = session.conversation.ready(plain=harness.tool_result_style == "plain")
    session.recorder.event("request", num_messages=len(messages), params=params, **session.gates.visible())
    try:
        return session.client.chat(
            messages,
            tools=harness.declarations(),
            params=params,
            stream=session.stream,
            on_delta=session.recorder.delta if session.stream else None,
            timeout_s=session.meter.seconds_left(),
        )
    except ClientError as error:
        session.recorder.event("request_failed", **error_data(error))
        if isinstance(error, RequestTimeout):
            raise Stop("time_limit", str(error)) from error
        raise


def _calls_of(session: _Session, reply: Reply) -> list[Attempt]:
    """The calls of a reply, repaired where that is certain; calls that a server left as text included."""
    conversation, harness = session.conversation, session.gates.shown
    truncated = reply.finish_reason in LENGTH_REASONS
    if harness.recovery.rescue_text_calls and not reply.message.tool_calls and not reply.message.failed_tool_calls:
        rescued = rescue(reply.message, harness, truncated=truncated, made=session.calls)
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


def _make_calls(session: _Session, attempts: Sequence[Attempt]) -> None:
    session.repeats.start_turn()
    outcomes = execute(
        attempts,
        recorder=session.recorder,
        meter=session.meter,
        calls=session.calls,
        gates=session.gates,
        guard=session.guard,
    )
    counts = [_repeats(session, attempt, outcome) for attempt, outcome in zip(attempts, outcomes, strict=True)]
    policy = session.harness.recovery
    texts = []
    for attempt, outcome, count in zip(attempts, outcomes, counts, strict=True):
        text = outcome.text
        if count >= policy.repeat_note_at:
            note = policy.repeated_call.format(name=attempt.name)
            session.recorder.event("noted", id=attempt.id, name=attempt.name, times=count, text=note)
            text = f"{text}\n{note}"
        texts.append(text)
    session.conversation.add_results(attempts, texts)
    if not any(outcome.was_made for outcome in outcomes):
        session.fail(outcomes[-1].record.error or "")
        return
    session.failures = 0
    # only when every call of the turn was a repeat is the model stuck
    count = min(counts)
    if count >= policy.repeat_stop_at:
        raise Stop("loop", f"{attempts[0].name} was called {count} times with the same arguments and the same result")
    if count >= policy.repeat_force_answer_at:
        session.recorder.event("tool_choice", tool_choice="none", why="repeated call")
        session.next_tool_choice = "none"


def _repeats(session: _Session, attempt: Attempt, outcome: Outcome) -> int:
    """How often this call gave this result with nothing new between; 0 for calls that may repeat or were not made."""
    if attempt.tool is None or attempt.tool.repeats or attempt.bound is None:
        return 0
    return session.repeats.seen(attempt.tool.name, attempt.bound.arguments, outcome.text)


def _answer_or_go_on(session: _Session, reply: Reply) -> None:
    """A reply without calls: the answer, or something the model has to be told. Raises Stop for the answer."""
    policy, conversation = session.harness.recovery, session.conversation
    content = (reply.message.content or "").strip()
    if reply.finish_reason == "content_filter" or (reply.refusal and not content):
        raise Stop("refused", reply.refusal or "the server's content filter ended the reply")
    if reply.finish_reason in LENGTH_REASONS:
        session.tell("truncated_reply", policy.truncated_reply)
        session.fail("the reply was cut off at the length limit")
    elif not content:
        wording = policy.empty_after_results if session.calls else policy.empty_reply
        session.tell("empty_reply", wording.format(question=conversation.question))
        session.fail("the reply was empty")
    else:
        names = _announced(session, content)
        if not names:
            raise Stop("answered", answer=content)
        session.announcements += 1
        session.next_tool_choice = names[0] if len(names) == 1 else "required"
        session.tell("announced_call", policy.announced_call.format(names=", ".join(names)), names=names)


def _announced(session: _Session, content: str) -> list[str]:
    """Tools that an answer announces instead of calling them; none when the run has no turn or no patience left for it."""
    harness = session.harness
    if session.announcements >= harness.recovery.max_announcement_replies or harness.tool_choice == "none":
        return []
    if session.meter.turns_left() == 0:
        return []
    called = [call.name for call in session.calls if call.name is not None and call.result is not None]
    return announced(content, session.gates.open_names(), called)
