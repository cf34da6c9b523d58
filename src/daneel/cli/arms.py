"""What `daneel compare` and `daneel gate` are given, harnesses of files and stored measurements, and how they follow trials."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from daneel.bench.compare import Comparison
from daneel.bench.compare_live import trials_of
from daneel.bench.compare_stored import stored_arm
from daneel.bench.identity_diff import Side
from daneel.bench.plan import Plan
from daneel.bench.record import Trial
from daneel.bench.sources import Sources, gather
from daneel.bench.store import TrialStore
from daneel.cli.trial_runs import progress_bar
from daneel.errors import UserError
from daneel.harness.files import load

_MEASUREMENT = re.compile(r"(?:m_[0-9a-f]*|last)(?::.*)?")


def is_measurement(operand: str) -> bool:
    """Whether this names a stored measurement, `ID` or `ID:HARNESS`, and no file."""
    return _MEASUREMENT.fullmatch(operand) is not None and not Path(operand).exists()


def stored_side(store: TrialStore, operand: str, *, kind: str | None = None, arm: str | None = None) -> Side:
    """A stored arm from `ID`, the start of one, or `last` (of this kind), with or without `:HARNESS`. Raises `UserError`.

    `arm`: which to take when the operand does not say, and there are several.
    """
    name, _, named = operand.partition(":")
    if name == "last" and kind is not None:
        plans = store.plans(kind=kind)
        if not plans:
            raise UserError(f"{store.path} holds no measurement that `daneel {kind}` made")
        plan = plans[0]
    else:
        plan = store.plan(name)
    trials = trials_of(store, plan)
    if not named and arm is not None and len({trial.harness for trial in trials}) > 1:
        named = arm
    return stored_arm(plan, plan.id, trials, named or None)


def split(operand: str) -> tuple[Path, str | None]:
    """`FILE` or `FILE:HARNESS`, as a path and a name. Raises `UserError` when there is no such file."""
    file, colon, name = operand.rpartition(":")
    if not colon or Path(operand).is_file():
        file, name = operand, ""
    if not Path(file).is_file():
        raise UserError(f"{operand}: is neither a harness file, nor one with :HARNESS behind it, nor the id of a measurement")
    return Path(file), name or None


def chosen(operands: Sequence[str], *, goals: Sequence[str], changes: Mapping[str, Any]) -> Sources:
    """The harnesses that `FILE` (all of its) and `FILE:HARNESS` name, in their order, and the goals. Raises `UserError`."""
    wanted = [split(operand) for operand in operands]
    sources = gather([file for file, _ in wanted], goals=goals, changes=changes)
    arms = []
    for file, name in wanted:
        found = [arm for arm in sources.arms if arm.file == str(file.resolve()) and name in (None, arm.harness)]
        if not found:
            load(file).harness(name)  # raises, and names what there is
        arms += [arm for arm in found if arm not in arms]
    return replace(sources, arms=tuple(arms), harnesses={arm.name: sources.harnesses[arm.name] for arm in arms})


def follow(comparison: Comparison, trials: Generator[Trial, None, None], plan: Plan) -> bool:
    """Run trials, with a progress bar of pairs on standard error. Gives whether Ctrl-C ended it.

    Raises `UserError` with what the runner says, and how to go on.
    """
    seen = 0
    try:
        with progress_bar(comparison.total_rounds) as update, closing(trials):
            for _ in trials:
                update(comparison.num_rounds - seen, _so_far(comparison))
                seen = comparison.num_rounds
    except KeyboardInterrupt:
        return True
    except UserError as error:
        how = f"daneel {plan.kind} --resume {plan.id}" if plan.kind == "compare" else "the same command"
        raise UserError(f"{error}; what is stored by then is kept: go on with {how}") from error
    return False


def _so_far(comparison: Comparison) -> str:
    said = "E so far: " + ("  ".join(f"{name} {mean:.2f}" for name, mean in comparison.means().items()) or "-")
    if len(comparison.pairings) > 1 or comparison.question.fixed:
        return said
    return f"{said}; e-value {comparison.pairings[0].test.e_value:.1f} of {1 / comparison.question.alpha:.0f}"
