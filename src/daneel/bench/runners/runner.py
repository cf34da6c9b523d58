"""What a runner is: places of a plan in, stored trials out. Nothing outside this folder knows where a trial ran."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Protocol

from daneel.bench.record import Trial
from daneel.bench.slot import Slot


class Runner(Protocol):
    """Runs trials.

    `run` pulls slots only as it has room for them, and gives each trial once its row is stored and acknowledged, in the order
    in which they end. An invalid trial is given too, and run again (`slot.rerun_of`). A consumer that stops (`close()` on
    what it was given, or no further `next`) gets no more slots run; what was under way then leaves no row.

    Raises `UserError` when trials cannot be stored, or cannot be run at all; `KeyboardInterrupt` after Ctrl-C, when the trials
    that it cut short have been given as `cancelled`.
    """

    def run(self, slots: Iterator[Slot]) -> Generator[Trial, None, None]:
        """Give the trials of `slots`."""
        ...
