"""Makes the calls of one reply: in the order written, or at the same time when all of them are declared safe for it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daneel.harness.gatekeeper import Gatekeeper
from daneel.harness.limits import Meter
from daneel.harness.pauses import INTERRUPTED, is_interrupted
from daneel.harness.policy import Recovery
from daneel.harness.recorder import Recorder
from daneel.harness.recovery import Attempt, Problem
from daneel.harness.run_record import CallRecord
from daneel.harness.safety.guard import Guard
from daneel.harness.tools.rendering import told
from daneel.harness.tools.running import call

MAX_PARALLEL_CALLS = 16


@dataclass(slots=True)
class Outcome:
    """What became of one call: its record, and whether the tool ran."""

    record: CallRecord
    text: str
    """What the model is told."""
    was_made: bool


def execute(
    attempts: Sequence[Attempt], *, recorder: Recorder, meter: Meter, calls: list[CallRecord], gates: Gatekeeper, guard: Guard
) -> list[Outcome]:
    """The outcome of every call, their records appended to `calls`. The guard is asked before each.

    The intent is on record before a tool runs, and the outcome right after. Gated tools run one after the other: what an
    earlier call of the same reply did may open their gate.
    """
    policy = meter.harness.recovery
    for attempt in attempts:
        _limit(attempt, meter)
    runnable = [attempt for attempt in attempts if attempt.tool is not None]
    together = 1 < len(runnable) <= MAX_PARALLEL_CALLS and all(
        attempt.tool and attempt.tool.parallel and not attempt.tool.gates for attempt in runnable
    )
    records = recorder.recall(runnable, meter)
    outcomes: list[Outcome] = []
    concluded = _Concluded(recorder)
    try:
        if together:
            permitted = [attempt for attempt in runnable if _permit(attempt, gates, guard, meter, records)]
            for attempt in permitted:
                _intend(attempt, recorder)
            to_run = [attempt for attempt in permitted if attempt.id not in records]
            _run_together(to_run, records, policy, guard, concluded)
        for attempt in attempts:
            if not together and _permit(attempt, gates, guard, meter, records):
                _intend(attempt, recorder)
                records[attempt.id] = records.get(attempt.id) or _run(attempt, policy, guard)
            if is_interrupted(records.get(attempt.id)):
                raise KeyboardInterrupt  # a person did that then, and the run on record went on
            outcomes.append(_outcome(attempt, records.get(attempt.id), recorder, concluded))
            calls.append(outcomes[-1].record)
    except KeyboardInterrupt:
        concluded.close()
        calls.extend(_interrupted(attempt, records.get(attempt.id), concluded) for attempt in attempts[len(outcomes) :])
        raise
    return outcomes


class _Concluded:
    """Puts results on record, each as soon as it is there: also those of tools that run at the same time, in their threads."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._ids: set[str] = set()
        self._lock = threading.Lock()
        self._closed = False

    def add(self, record: CallRecord, *, late: bool = False) -> None:
        """Once for each call. `late`: from a thread; not once the calls have been given up."""
        with self._lock:
            if record.id in self._ids or (late and self._closed):
                return
            self._ids.add(record.id)
            record.turn = self._recorder.turn
            duration_s = round(record.duration_s, 6)
            data = {"id": record.id, "name": record.name, "result": record.result, "error": record.error}
            self._recorder.event("result", **data, duration_s=duration_s, **record.extras())

    def close(self) -> None:
        """Nobody waits for the threads any more: what they find out comes too late."""
        with self._lock:
            self._closed = True


def _interrupted(attempt: Attempt, record: CallRecord | None, concluded: _Concluded) -> CallRecord:
    """The record of a call that Ctrl-C found before its outcome was known: it may have had its effect, in part or whole."""
    record = record or CallRecord(attempt.name, attempt.bound.arguments if attempt.bound else attempt.written, id=attempt.id)
    record.error = record.error or INTERRUPTED
    concluded.add(record)
    return record


def _limit(attempt: Attempt, meter: Meter) -> None:
    """Count a call against its tool's limit; a call too many gets a problem instead."""
    if attempt.tool is None:
        return
    name = attempt.tool.name
    if meter.calls_left(name):
        meter.calls[name] += 1
        return
    limit = meter.harness.max_calls[name]
    text = meter.harness.recovery.call_limit.format(name=name, limit=limit)
    attempt.problem = Problem("call_limit", f"{name} may be called {limit} times", text)
    attempt.tool = attempt.bound = None


def _permit(attempt: Attempt, gates: Gatekeeper, guard: Guard, meter: Meter, records: Mapping[str, CallRecord]) -> bool:
    """Whether the call may be made; one that may not gets a problem instead. What is on record was made already."""
    if attempt.tool is None or attempt.bound is None:
        return False
    if attempt.id in records:
        guard.recall(attempt.tool, attempt.bound.arguments)
        return True
    attempt.problem = gates.problem(attempt) or guard.check(attempt)
    if attempt.problem is not None:
        meter.calls[attempt.tool.name] -= 1
        attempt.tool = attempt.bound = None
    return attempt.problem is None


def _intend(attempt: Attempt, recorder: Recorder) -> None:
    arguments = attempt.bound.arguments if attempt.bound else {}
    effects = sorted(getattr(attempt.tool, "effects", ()))
    recorder.event("call", id=attempt.id, name=attempt.name, arguments=arguments, effects=effects)


def _outcome(attempt: Attempt, record: CallRecord | None, recorder: Recorder, concluded: _Concluded) -> Outcome:
    if record is not None:
        concluded.add(record)
        return Outcome(record, record.result or "", was_made=True)
    problem = attempt.problem
    assert problem is not None
    arguments = json.loads(attempt.arguments) if attempt.arguments is not None else attempt.written
    record = CallRecord(attempt.name, arguments, None, problem.error, attempt.id, recorder.turn)
    recorder.event(
        "told", id=attempt.id, name=attempt.name, problem=problem.kind, error=problem.error, text=problem.reply, raw=attempt.raw
    )
    return Outcome(record, problem.reply, was_made=False)


def _run(attempt: Attempt, policy: Recovery, guard: Guard) -> CallRecord:
    """Run one tool. What it raises is shown to the model and kept; the run goes on."""
    assert attempt.tool is not None
    assert attempt.bound is not None
    record = CallRecord(attempt.tool.name, attempt.bound.arguments, id=attempt.id)
    started = time.monotonic()
    done = call(attempt.tool, attempt.bound.kwargs, timeout_s=attempt.tool.timeout_s)
    record.duration_s = time.monotonic() - started
    said = told(attempt.tool, done, attempt.bound.kwargs, policy)
    record.result = guard.present(attempt.tool, said.text, own_words=said.own_words)
    record.error, record.notes = said.error and guard.redacted(said.error), said.notes
    plain = guard.redacted(said.plain)
    record.returned = plain if plain != record.result else None
    return record


def _run_together(
    attempts: Sequence[Attempt], records: dict[str, CallRecord], policy: Recovery, guard: Guard, concluded: _Concluded
) -> None:
    """Run tools at the same time, one daemon thread each (Ctrl-C need not wait for them); fills `records` by call id."""

    def run(attempt: Attempt) -> None:
        records[attempt.id] = record = _run(attempt, policy, guard)
        concluded.add(record, late=True)

    threads = [threading.Thread(target=run, args=(attempt,), daemon=True) for attempt in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
