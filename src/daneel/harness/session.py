"""One run while it is on: what the parts of the loop share."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from daneel.harness.client_errors import ClientError
from daneel.harness.context import Context
from daneel.harness.conversation import Conversation
from daneel.harness.definition import Harness
from daneel.harness.detect import Detectors
from daneel.harness.detectors.repeating_text import Repetition
from daneel.harness.gatekeeper import Gatekeeper
from daneel.harness.inbox import Inbox, go_on, settle
from daneel.harness.limits import Meter
from daneel.harness.long_runs import LongRun
from daneel.harness.next_request import Changes
from daneel.harness.past import Past
from daneel.harness.peer import ChatClient, stop_for
from daneel.harness.recorder import Recorder
from daneel.harness.run_record import CallRecord, Run
from daneel.harness.safety.approvals import Approver
from daneel.harness.safety.guard import Guard
from daneel.harness.safety.secrets import redaction
from daneel.harness.server_profile import profile_of
from daneel.harness.stop import Stop
from daneel.harness.text_calls import TextCallReader


@dataclass
class Session:
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
    failures: int = 0
    """Turns in a row that neither called a tool nor answered."""
    announcements: int = 0
    truncations: int = 0
    """Replies in a row that the length limit cut off."""
    repetitions: int = 0
    """Replies in a row that repeated themselves."""
    is_closing: bool = False
    """The model has been told that this turn is its last."""
    model: str | None = None
    """The model's name, as the server's last reply gave it."""
    warnings: list[dict[str, Any]] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)
    """What the next request has otherwise than the harness says; for one turn."""
    refused: set[str] = field(default_factory=set)
    """Changes that the server did not take: not tried again."""
    continued: str | None = None
    """The text that the reply now awaited goes on with."""
    kept_thoughts: str | None = None
    """The thoughts that came before that text."""
    repeating: Repetition | None = None
    """What the last reply repeated, if that is how it ended."""

    def __post_init__(self) -> None:
        self.meter = Meter(self.harness)
        self.detectors = Detectors(self.harness.recovery)
        self.text_calls = TextCallReader()
        self.gates = Gatekeeper(self.harness, self.calls, self.recorder)
        self.context = Context(self)
        self.long_run = LongRun(self)
        self.guard = Guard(self.harness.safety, self.approver, self.recorder.event)
        self.conversation = Conversation(
            is_daneel=False,
            on_message=lambda message: self.recorder.event("message", message=message),
            redact=redaction(wanted=self.harness.safety.redact),
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
            "repeating_tools": [tool.name for tool in self.harness.tools if tool.repeats],
        }
        self.recorder.begin(self.id, about)
        self.conversation.start(self.harness.system, prompt)
        self.conversation.is_daneel = self.client.is_daneel
        self.recorder.event("peer", is_daneel=self.conversation.is_daneel)
        profile = profile_of(self.client)
        self.refused |= profile.refused_changes()
        if effects := profile.effects(self.harness.tool_result_style):
            self.recorder.event("server_profile", effects=effects, probed_at=profile.probed_at)

    def close(self, stop: Stop) -> Run:
        self.recorder.event("stop", reason=stop.reason, detail=stop.detail, answer=stop.answer)
        run = Run(
            self.id,
            stop.reason,
            stop.answer,
            self.meter.turns,
            self.calls,
            self.meter.usage,
            self.conversation.kept,
            self.recorder.events,
            self.meter.duration_s,
            stop.detail,
            self.harness.fingerprint(),
            self.seed,
            self.long_run.dropped,
        )
        self.recorder.end(run)
        return run

    def go_on(self, end: BaseException) -> None:
        """The run would end here: it goes on if a person says more, else it ends."""
        stop = stop_of(end)
        settle(self.conversation, self.calls, self.harness.recovery)
        if self.inbox is None or not go_on(self.inbox, stop, self.recorder, self.conversation):
            raise stop
        self.renew()

    def renew(self) -> None:
        """A person has spoken: limits and counts of what went wrong begin anew."""
        self.meter.renew()
        self.detectors = Detectors(self.harness.recovery)
        self.failures = self.announcements = self.truncations = self.repetitions = 0
        self.changes = Changes()
        self.is_closing = False

    def tell(self, kind: str, text: str, **data: Any) -> None:
        """Say something to the model before the next turn, and record that."""
        self.recorder.event(kind, text=text, **data)
        self.conversation.say(text)

    def change(self, **fields: Any) -> list[str]:
        """Change the next request, but for what this server has refused; gives the names of what is changed."""
        allowed = {name: value for name, value in fields.items() if name not in self.refused}
        self.changes = replace(self.changes, **allowed)
        return sorted(allowed)

    def warn(self, **warning: str) -> None:
        """The server, or the client, did not honour a request field. Said once per run, not once per turn."""
        self.once("warning", **warning)

    def once(self, kind: str, **data: Any) -> None:
        """Record something that holds for the whole run, and comes up in every turn."""
        said = {"kind": kind, **data}
        if said not in self.warnings:
            self.warnings.append(said)
            self.recorder.event(kind, **data)

    def fail(self, detail: str) -> None:
        """A turn brought nothing. Too many of them in a row end the run."""
        self.failures += 1
        if self.failures >= self.harness.recovery.max_consecutive_failures:
            raise Stop("gave_up", f"{self.failures} turns in a row brought nothing; the last: {detail}")


def stop_of(end: BaseException) -> Stop:
    """How a run ends with this exception."""
    if isinstance(end, ClientError):
        return stop_for(end)
    return end if isinstance(end, Stop) else Stop("cancelled", "interrupted")
