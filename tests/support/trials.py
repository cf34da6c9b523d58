"""Trials as they come out of the store, made by hand or by hypothesis."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from daneel.bench.record import Trial
from daneel.bench.slot import Slot, rerun_of


def make_trial(**fields: Any) -> Trial:
    """A scored trial that achieved its goal in two turns, unless `fields` say otherwise."""
    defaults: dict[str, Any] = {
        "measurement": "m",
        "index": 0,
        "harness": "H1",
        "goal": "now",
        "model": "scripted",
        "seed": 1,
        "started_at": "2026-10-14T12:03:27+00:00",
        "run_id": "r",
        "stop_reason": "answered",
        "achieved": True,
        "turns": 2,
        "calls": 2,
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "cached_tokens": 50,
        "duration_s": 1.0,
    }
    return Trial(**{**defaults, **fields})


counts = st.integers(0, 10**6)
scored_trials = st.builds(
    make_trial,
    achieved=st.booleans(),
    turns=st.integers(0, 50),
    calls=st.integers(0, 99),
    prompt_tokens=st.none() | counts,
    completion_tokens=st.none() | counts,
    cached_tokens=st.none() | counts,
    duration_s=st.floats(0, 10**5),
)
unscored_trials = st.builds(
    make_trial,
    achieved=st.none(),
    stop_reason=st.sampled_from(["cancelled", "invalid", "answered"]),
    not_scored=st.sampled_from(["the server went away", "the check raised KeyError"]),
    turns=st.integers(0, 50),
)
any_trials = scored_trials | unscored_trials


@dataclass(frozen=True)
class KnownArm:
    """An arm whose trials are drawn: `outcomes` are (chance, achieved, turns); their chances add up to 1.

    `invalid`: the chance of an attempt to be invalid. `by_goal`: other outcomes for some goals.
    """

    outcomes: tuple[tuple[float, bool, int], ...]
    invalid: float = 0.0
    by_goal: Mapping[str, tuple[tuple[float, bool, int], ...]] = field(default_factory=dict)

    @property
    def effectiveness(self) -> float:
        """The true E of `outcomes`."""
        return sum(chance * achieved / max(1, turns - 1) for chance, achieved, turns in self.outcomes)

    def draw(self, luck: float, goal: str = "now") -> tuple[bool, int]:
        """(achieved, turns) for a number in [0, 1): the less luck, the earlier in `outcomes`."""
        for chance, achieved, turns in self.by_goal.get(goal, self.outcomes):
            luck -= chance
            if luck < 0:
                return achieved, turns
        return self.by_goal.get(goal, self.outcomes)[-1][1:]


def arm_of(effectiveness: float, *, turns: int = 2, invalid: float = 0.0) -> KnownArm:
    """An arm of this E that takes `turns` turns whether or not it achieves the goal."""
    chance = effectiveness * max(1, turns - 1)
    return KnownArm(((chance, True, turns), (1 - chance, False, turns)), invalid)


@dataclass
class SimulatedRunner:
    """A `Runner` whose trials are drawn, by `luck` and the slot: the same slot gives the same trial.

    `shared`: the chance that all arms of a round have the same luck. `num_at_once`: so many slots are pulled before the first
    trial is given, and the one with the fewest turns is given first, as with workers. `stop_after`: Ctrl-C after that many.
    """

    arms: Mapping[str, KnownArm]
    luck: str = ""
    shared: float = 0.0
    num_at_once: int = 1
    stop_after: int | None = None
    given: list[Trial] = field(default_factory=list)

    def run(self, slots: Iterator[Slot]) -> Generator[Trial, None, None]:
        """See `Runner`."""
        under_way: list[Trial] = []
        more = True
        while more or under_way:
            while more and len(under_way) < self.num_at_once:
                slot = next(slots, None)
                more = slot is not None
                while slot is not None:
                    under_way.append(self.trial(slot))
                    slot = rerun_of(slot, under_way[-1])
            under_way.sort(key=lambda trial: (trial.turns, trial.attempt))
            if under_way:
                if self.stop_after is not None and len(self.given) >= self.stop_after:
                    raise KeyboardInterrupt
                self.given.append(under_way.pop(0))
                yield self.given[-1]

    def trial(self, slot: Slot) -> Trial:
        """The trial of a slot."""
        arm, name = self.arms[slot.arm.name], slot.arm.name
        ours = random.Random(f"{self.luck} {slot.seed} {name} {slot.attempt}")
        everybodys = random.Random(f"{self.luck} {slot.seed}")
        is_shared, luck = everybodys.random() < self.shared, everybodys.random()
        place = {"measurement": slot.measurement, "index": slot.index, "harness": name, "goal": slot.goal}
        place |= {"seed": slot.seed, "attempt": slot.attempt, "run_id": f"r_{name}_{slot.index}_{slot.attempt}"}
        if ours.random() < arm.invalid:
            return make_trial(**place, achieved=None, stop_reason="invalid", not_scored="the server went away", turns=0)
        achieved, turns = arm.draw(luck if is_shared else ours.random(), slot.goal)
        return make_trial(**place, achieved=achieved, turns=turns)
