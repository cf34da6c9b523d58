"""A place in a measurement's plan: which harness tries which goal, with which seed. One trial fills it, or several attempts."""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from daneel.bench.record import Trial

MAX_RERUNS = 3
"""An invalid attempt is made again at most so many times; then the place stays empty, and its pair is dropped."""


class Arm(Struct, frozen=True, kw_only=True):
    """One side of a measurement: a harness, where it comes from, and what the command line changes in it.

    `changes`: fields of `Harness` with JSON values, `sandbox: false` for commands without one, and `edits` (`tune/edits.py`).
    """

    name: str
    harness: str
    """Its name in the file."""
    file: str | None = None
    """Absolute; `None` for a harness that exists in this process only."""
    changes: dict[str, Any] = {}


class Slot(Struct, frozen=True, kw_only=True):
    """What a runner is given: run this, once. The same slot with the same seed may be run anywhere."""

    measurement: str
    index: int
    arm: Arm
    goal: str
    seed: int
    attempt: int = 0


def seed_of(base_seed: int, index: int) -> int:
    """The seed of a round, in [0, 2**31): the same for every harness, unrelated to those of other rounds and bases."""
    return int.from_bytes(hashlib.sha256(f"{base_seed}:{index}".encode()).digest()[:4]) >> 1


def settles(trial: Trial) -> bool:
    """Whether a trial fills its place for good.

    An attempt that failed for reasons of server or network does not, until there have been `MAX_RERUNS` more; nor does one
    that was cancelled: it is made when the measurement is resumed. A check that raised would raise again, and is final.
    """
    if trial.scored:
        return True
    if trial.cancelled:
        return False
    return trial.stop_reason != "invalid" or trial.attempt >= MAX_RERUNS


def rerun_of(slot: Slot, trial: Trial) -> Slot | None:
    """The next attempt at `slot` after `trial`, or `None` when there is to be none now."""
    return None if settles(trial) or trial.cancelled else replace(slot, attempt=trial.attempt + 1)
