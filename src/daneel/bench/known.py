"""Known passes and known fails: what a goal's author knows of its check, as a run that the check can be asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daneel.harness.run_record import CallRecord, Run, RunUsage


def run_of(answer: str | None, calls: Sequence[tuple[str, dict[str, Any], str]] = (), *, turns: int | None = None) -> Run:
    """A run that ended with `answer` after `calls`, each (name, arguments, result): for `known_pass` and `known_fail`.

    `turns`: by default one for each call, and one for the answer.
    """
    made = [
        CallRecord(name, arguments, result, id=f"call_{number}", turn=number)
        for number, (name, arguments, result) in enumerate(calls, start=1)
    ]
    return Run(
        id="known",
        stop_reason="gave_up" if answer is None else "answered",
        answer=answer,
        turns=len(made) + 1 if turns is None else turns,
        calls=made,
        usage=RunUsage(),
        messages=[],
        events=[],
    )
