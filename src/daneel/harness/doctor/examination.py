"""The examination of a server: every probe in turn, within a time, and what follows for the harness.

A probe that fails is a finding. What ends an examination early is said in it: no reply to a plain question, or a server that
lets three requests in a row run out of time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from daneel import __version__
from daneel.harness.doctor import advice, call_probes, reply_probes, server_probes, template_probes
from daneel.harness.doctor.exchange import Sender
from daneel.harness.doctor.lab import Finding, Lab
from daneel.harness.run_record import JsonObject
from daneel.harness.server_profile import ServerProfile

MAX_TIMEOUTS = 3

Probe = Callable[[Lab], object]

PROBES: tuple[tuple[str, Probe], ...] = (
    ("models", server_probes.models),
    ("which server it is", server_probes.software),
    ("a plain reply", reply_probes.whole),
    ("a stream", reply_probes.streamed),
    ("a call", call_probes.whole),
    ("two calls in a stream", call_probes.streamed),
    ("tool choice", call_probes.choice),
    ("a call that is cut off", call_probes.truncated),
    ("a malformed call", call_probes.malformed),
    ("a call as text", call_probes.as_text),
    ("results of tools", call_probes.results),
    ("calls in the history", call_probes.history),
    ("template parameters", template_probes.parameters),
    ("the length limit", reply_probes.length),
    ("the cache", reply_probes.cache),
    ("an unknown field", reply_probes.unknown_field),
    ("structured output", reply_probes.schema),
    ("the developer role", reply_probes.developer_role),
    ("wrong requests", server_probes.errors),
    ("keys", server_probes.keys),
    ("other websites", server_probes.cors),
    ("a client that leaves", reply_probes.leaving),
    ("a prompt that is too long", server_probes.overflow),
)
"""In this order: what the rest depends on first, what may upset a server last."""


@dataclass(frozen=True)
class Examination:
    """What was found. `ended_early` says why some probes were left out, if some were."""

    server: str
    model: str | None
    findings: list[Finding]
    num_requests: int
    started_at: str
    ended_early: str | None = None
    recovery: list[str] = field(default_factory=list)
    """What the harness will do with this server, in sentences."""

    def profile(self) -> ServerProfile:
        """What runs make use of."""
        return advice.profile(self.server, self.model or "", self.started_at, self.findings)

    def to_dict(self) -> JsonObject:
        """The object that `daneel doctor --json` prints."""
        topics: JsonObject = {}
        for found in self.findings:
            topics.setdefault(found.topic, {})[found.name] = {"value": found.value, "words": found.words}
        return {
            "daneel": __version__,
            "server": self.server,
            "model": self.model,
            "started_at": self.started_at,
            "num_requests": self.num_requests,
            "ended_early": self.ended_early,
            "findings": topics,
            "recovery": self.recovery,
            "profile": asdict(self.profile()),
        }


def examine(sender: Sender, model: str | None, *, on_progress: Callable[[int, int, str], object]) -> Examination:
    """Ask the server about 40 things. `on_progress` gets the number of the probe, how many there are, and its name."""
    lab = Lab(sender, model)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    ended_early = None
    for number, (name, probe) in enumerate(PROBES, start=1):
        on_progress(number, len(PROBES), name)
        said = probe(lab)
        if probe is server_probes.models and not _reached(lab):
            ended_early = "the server cannot be reached"
        elif probe is reply_probes.whole and said is False:
            ended_early = "it gives no reply to a plain question"
        elif sender.num_timeouts >= MAX_TIMEOUTS:
            ended_early = f"{MAX_TIMEOUTS} requests in a row took too long"
        elif sender.seconds_left() <= 0:
            ended_early = "the time for the examination was over"
        if ended_early:
            break
    reply_probes.thoughts(lab)
    recovery = advice.recovery(lab.findings) if ended_early is None else []
    return Examination(sender.base_url, lab.model, lab.findings, sender.num_sent, started_at, ended_early, recovery)


def _reached(lab: Lab) -> bool:
    """Whether any answer came: a server need not know `/v1/models`."""
    return not any(
        found.topic == "server" and found.name == "models" and found.value is None and "Connect" in found.words
        for found in lab.findings
    )
