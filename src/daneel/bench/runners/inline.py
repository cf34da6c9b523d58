"""Trials in this process, one after the other: for harnesses that exist nowhere else, and for simulations."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass

from daneel.bench.record import Trial
from daneel.bench.slot import Slot, rerun_of
from daneel.bench.store import TrialStore
from daneel.bench.trial import Attempt, ModelIdentity, attempt
from daneel.bench.workspace import WorkFolder
from daneel.harness.client import Client
from daneel.harness.definition import Goal, Harness
from daneel.harness.recorder import TranscriptSink


@dataclass(frozen=True, kw_only=True)
class InlineRunner:
    """A `Runner` of given objects: `harnesses` by the arm's name, `goals` by their own.

    `transcripts` is asked for each slot, so that its run can be labelled.
    """

    harnesses: Mapping[str, Harness]
    goals: Mapping[str, Goal]
    client: Client
    model: ModelIdentity
    store: TrialStore
    transcripts: Callable[[Slot], TranscriptSink | None] = lambda slot: None
    folder: WorkFolder | None = None
    """Where goals with a set-up are tried; whoever gives it can bind tools to its path."""

    def run(self, slots: Iterator[Slot]) -> Generator[Trial, None, None]:
        """See `Runner`."""
        with WorkFolder() as own:
            for place in slots:
                slot: Slot | None = place
                while slot is not None:
                    ended = self._attempt(slot, self.folder or own)
                    self.store.add(ended.trial)
                    yield ended.trial
                    if ended.trial.cancelled:
                        raise KeyboardInterrupt
                    if ended.stop is not None:
                        raise ended.stop
                    slot = rerun_of(slot, ended.trial)

    def _attempt(self, slot: Slot, folder: WorkFolder) -> Attempt:
        return attempt(
            slot,
            self.harnesses[slot.arm.name],
            self.goals[slot.goal],
            client=self.client,
            model=self.model,
            folder=folder,
            transcripts=self.transcripts(slot),
        )
