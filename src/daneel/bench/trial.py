"""goal x harness x model x seed -> trial. Runs the loop, asks the goal's check, and stores the row before it counts."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from daneel.bench.record import Trial
from daneel.bench.store import TrialStore
from daneel.errors import UserError
from daneel.harness.client import Client, ClientError, ServerRefused
from daneel.harness.definition import Goal, Harness, digest
from daneel.harness.loop import run
from daneel.harness.raised import described, is_interrupt
from daneel.harness.recorder import TranscriptSink
from daneel.harness.run_record import Run


@dataclass(frozen=True)
class ModelIdentity:
    """*M*. `verified`: the server is daneel's and hashes what it serves; else the hash is of what a foreign server tells."""

    name: str
    hash: str
    verified: bool


_NOT_IDENTITY = frozenset({"id", "object", "owned_by", "created", "permission"})
"""Fields of a model's entry that say nothing of what is served, or change with every start of a server."""


def identify(client: Client) -> ModelIdentity:
    """The identity of the model that `client` talks to, from the server's `/v1/models`. Raises `UserError`.

    A server that has no such list, or does not list the model it was asked for (an alias), still may serve it: then only
    the name is hashed.
    """
    try:
        entries = {served.id: served.raw for served in client.models()}
    except ServerRefused as error:
        if error.status not in (404, 405, 501):
            raise UserError(str(error)) from error
        entries = {}
    except ClientError as error:
        raise UserError(str(error)) from error
    try:
        name = client.model
    except ClientError as error:
        raise UserError(str(error)) from error
    entry = entries.get(name, {})
    verified = entry.get("owned_by") == "daneel" and bool(entry.get("weights_sha256"))
    facts = {key: value for key, value in entry.items() if key not in _NOT_IDENTITY}
    return ModelIdentity(name, digest(facts if verified else [name, facts]), verified)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What is measured: every harness on one goal and one model, `num_trials` times, all with the same seeds."""

    harnesses: Mapping[str, Harness]
    goal: Goal
    model: ModelIdentity
    num_trials: int
    base_seed: int
    id: str = field(default_factory=lambda: "m_" + secrets.token_hex(6))

    def slots(self) -> Iterator[tuple[int, int, str]]:
        """(index, seed, harness) in the order of execution: round-robin, each round beginning with the next harness.

        So a machine that slows down, or a cache that warms up, meets all harnesses alike.
        """
        names = list(self.harnesses)
        for index in range(self.num_trials):
            start = index % len(names)
            for name in names[start:] + names[:start]:
                yield index, seed_of(self.base_seed, index), name


def seed_of(base_seed: int, index: int) -> int:
    """The seed of a round, in [0, 2**31): the same for every harness, unrelated to those of other rounds and bases."""
    return int.from_bytes(hashlib.sha256(f"{base_seed}:{index}".encode()).digest()[:4]) >> 1


def measure(
    measurement: Measurement, *, client: Client, store: TrialStore, transcripts: TranscriptSink | None = None
) -> Iterator[tuple[Trial, Run]]:
    """Run all trials, one after the other, and give each with its run once it is stored.

    A trial that is interrupted is stored as `cancelled`, given, and followed by `KeyboardInterrupt`. Raises `UserError` when
    a trial cannot be stored, or went on to a server with another model: that trial is invalid, and more would be, too.
    """
    for index, seed, name in measurement.slots():
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        finished = run(measurement.harnesses[name], measurement.goal.prompt, client=client, transcript=transcripts, seed=seed)
        other = _other_model(finished, client, measurement.model)
        trial = judge(measurement, finished, index=index, seed=seed, harness=name, started_at=started_at, not_scored=other)
        store.add(trial)
        yield trial, finished
        if trial.cancelled:
            raise KeyboardInterrupt
        if other is not None:
            raise UserError(f"{other}; the trials before that are stored")


def _other_model(finished: Run, client: Client, model: ModelIdentity) -> str | None:
    """Why a trial tells nothing of `model`: it went on to a server that serves another one."""
    moved = [event.data for event in finished.events if event.kind == "failed_over"]
    if not moved:
        return None
    served = identify(client)
    if served == model:
        return None
    return f"{moved[-1]['server']} failed ({moved[-1]['error']}), and {moved[-1]['to']} serves another model ({served.name})"


def judge(
    measurement: Measurement,
    finished: Run,
    *,
    index: int,
    seed: int,
    harness: str,
    started_at: str,
    not_scored: str | None = None,
) -> Trial:
    """Ask the goal's check, and make the row. A check that raises makes the trial invalid, with the reason, never zero.

    `not_scored`: why the trial is invalid whatever the check would say.
    """
    achieved, why_not = _verdict(measurement.goal, finished)
    if not_scored is not None:
        achieved, why_not = None, not_scored
    usage = finished.usage
    counted = usage.unknown_turns == 0
    return Trial(
        measurement=measurement.id,
        index=index,
        harness=harness,
        goal=measurement.goal.name,
        model=measurement.model.name,
        seed=seed,
        started_at=started_at,
        run_id=finished.id,
        stop_reason=finished.stop_reason,
        achieved=achieved,
        not_scored=why_not,
        answer=finished.answer,
        turns=finished.turns,
        calls=sum(call.result is not None for call in finished.calls) + finished.dropped.get("made_calls", 0),
        prompt_tokens=usage.prompt_tokens if counted else None,
        completion_tokens=usage.completion_tokens if counted else None,
        cached_tokens=usage.cached_tokens if counted else None,
        duration_s=finished.duration_s,
        harness_hash=measurement.harnesses[harness].fingerprint(),
        model_hash=measurement.model.hash,
        model_verified=measurement.model.verified,
        goal_hash=measurement.goal.fingerprint(),
    )


def _verdict(goal: Goal, finished: Run) -> tuple[bool | None, str | None]:
    """What the check says, or `None` and why it may not be asked or could not say."""
    if finished.stop_reason in ("invalid", "cancelled"):
        return None, finished.detail or finished.stop_reason
    try:
        return goal(finished), None
    except BaseException as error:  # a person's own code may raise anything
        if is_interrupt(error):
            raise
        return None, f"the check of goal {goal.name} raised {described(error)}"
