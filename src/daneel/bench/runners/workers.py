"""Trials in worker processes on this machine. Here is the store's owner: it hands out places, keeps rows, acknowledges them.

A worker that dies takes nothing with it but the trial it was at, which left no row and is run again elsewhere.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daneel.bench.plan import Plan, lost_trial
from daneel.bench.record import Trial
from daneel.bench.runners.crew import CANCEL_S, Crew, Hand
from daneel.bench.runners.link import Cancel, Failed, Job, Row, Stored, WorkerSetup
from daneel.bench.slot import MAX_RERUNS, Slot, rerun_of, settles
from daneel.bench.store import TrialStore
from daneel.bench.trial import ModelChanged
from daneel.errors import UserError

MAX_DEATHS = 4
"""So many worker processes may die at the same place; then it is left, as invalid."""
MAX_BARREN = 5
"""After so many places in a row that could not be tried at all, the servers are taken for gone."""


@dataclass(frozen=True, kw_only=True)
class WorkersRunner:
    """A `Runner` of harnesses and goals that stand in files. `num_workers` trials are on at a time, each in its process.

    Workers begin with different servers of `servers`, and go on to the others when theirs fails.
    """

    plan: Plan
    store: TrialStore
    servers: Sequence[str]
    num_workers: int = 1
    keys: Sequence[str] | None = None
    asked_model: str | None = None
    ca_cert: Path | None = None
    insecure_http: bool = False
    transcripts: bool = True
    """Whether runs are to be kept."""
    labels: Mapping[str, Any] = field(default_factory=dict)

    def run(self, slots: Iterator[Slot]) -> Generator[Trial, None, None]:
        """See `Runner`."""
        with Crew(self._setup) as crew:
            yield from _Shift(self, crew, slots).trials()

    def _setup(self, number: int, folder: Path) -> WorkerSetup:
        """What worker `number` is told first."""
        start = number % len(self.servers)
        keys = list(self.keys) if self.keys is not None else None
        if keys is not None and len(keys) == len(self.servers):
            keys = keys[start:] + keys[:start]
        return WorkerSetup(
            servers=[*self.servers[start:], *self.servers[:start]],
            keys=keys,
            asked_model=self.asked_model,
            model_name=self.plan.model.name,
            model_hash=self.plan.model.hash,
            model_verified=self.plan.model.verified,
            ca_cert=None if self.ca_cert is None else str(self.ca_cert),
            insecure_http=self.insecure_http,
            harness_hashes={arm.name: arm.hash for arm in self.plan.arms},
            goal_files={goal.name: str(goal.file) for goal in self.plan.goals},
            goal_hashes={goal.name: goal.hash for goal in self.plan.goals},
            goals_with_setup=[goal.name for goal in self.plan.goals if goal.has_setup],
            folder=str(folder),
            transcripts=self.transcripts,
            labels={**self.labels, "model": self.plan.model.name, "measurement": self.plan.id},
        )


class _Shift:
    """One call of `run`: which places are open, and what has become of the others."""

    def __init__(self, runner: WorkersRunner, crew: Crew, slots: Iterator[Slot]) -> None:
        self._runner = runner
        self._crew = crew
        self._slots = slots
        self._again: deque[Slot] = deque()
        self._deaths: Counter[tuple[str, str, int]] = Counter()
        self._num_barren = 0

    def trials(self) -> Generator[Trial, None, None]:
        """All trials, as they end."""
        try:
            self._hand_out()
            while self._crew.num_busy:
                for hand in self._crew.heard():
                    for trial, stop in self._hear(hand):
                        yield trial
                        if stop is not None:
                            raise ModelChanged(stop)
                        self._check_not_barren(trial)
                self._hand_out()
        except KeyboardInterrupt:
            yield from self._cancelled()
            raise

    def _hand_out(self) -> None:
        """A place for every worker that has none, as long as there are places."""
        while self._crew.num_busy < self._runner.num_workers:
            slot = self._again.popleft() if self._again else next(self._slots, None)
            if slot is None:
                return
            hand = self._crew.idle()
            hand.slot = slot
            if not hand.send(Job(slot)):
                self._again.appendleft(slot)
                hand.slot = None
                self._crew.bury(hand)

    def _hear(self, hand: Hand) -> list[tuple[Trial, str | None]]:
        """What a worker has to say: a trial that is stored by now, and why no other may be run."""
        given = []
        for message in hand.messages():
            if isinstance(message, Failed):
                raise UserError(message.message)
            if isinstance(message, Row) and hand.slot is not None and _fits(message.trial, hand.slot):
                slot, hand.slot = hand.slot, None
                self._keep(message.trial, slot)
                hand.send(Stored())  # a worker that is gone by now is found so when it is given its next place
                given.append((message.trial, message.stop))
        if hand.is_gone:
            how = self._crew.bury(hand)
            if hand.slot is not None and not hand.is_ready:
                self._again.append(hand.slot)  # it is not the place's fault
            elif hand.slot is not None and (trial := self._lost(hand.slot, how)) is not None:
                given.append((trial, None))
        return given

    def _keep(self, trial: Trial, slot: Slot) -> None:
        self._runner.store.add(trial)
        if (again := rerun_of(slot, trial)) is not None:
            self._again.append(again)

    def _lost(self, slot: Slot, how: str) -> Trial | None:
        """A worker died at this place: it is open again, unless that has happened too often."""
        place = (slot.arm.name, slot.goal, slot.index)
        self._deaths[place] += 1
        if self._deaths[place] < MAX_DEATHS:
            self._again.append(slot)
            return None
        why = f"its worker process died {MAX_DEATHS} times; the last one {how}"
        trial = lost_trial(slot, self._runner.plan, attempt=max(MAX_RERUNS, slot.attempt), why=why)
        self._runner.store.add(trial)
        return trial

    def _check_not_barren(self, trial: Trial) -> None:
        if not settles(trial):
            return
        self._num_barren = self._num_barren + 1 if trial.stop_reason == "invalid" else 0
        if self._num_barren >= MAX_BARREN:
            raise UserError(f"{MAX_BARREN} places in a row could not be tried at all; the last: {trial.not_scored}")

    def _cancelled(self) -> Iterator[Trial]:
        """The rows of what was under way, as far as workers can still give them."""
        for hand in self._crew.busy():
            hand.send(Cancel())
        self._again.clear()
        self._crew.set_deadline(CANCEL_S)
        while self._crew.num_busy and (heard := self._crew.heard()):
            for hand in heard:
                for message in hand.messages():
                    if isinstance(message, Row) and hand.slot is not None and _fits(message.trial, hand.slot):
                        hand.slot = None
                        self._runner.store.add(message.trial)
                        yield message.trial
                if hand.is_gone:
                    self._crew.bury(hand)
                    hand.slot = None


def _fits(trial: Trial, slot: Slot) -> bool:
    given = (trial.measurement, trial.harness, trial.goal, trial.index, trial.attempt, trial.seed)
    return given == (slot.measurement, slot.arm.name, slot.goal, slot.index, slot.attempt, slot.seed)
