"""From detectors to deeds: what a turn's calls look like to them, and what follows when one fires. Every firing is recorded.

Graded: a note with the result; the tool out of sight for a turn; the end of the run, as `loop`.
"""

from __future__ import annotations

from collections.abc import Sequence

from daneel.harness.detectors.base import Firing, Seen
from daneel.harness.execute import Outcome
from daneel.harness.recovery import Attempt
from daneel.harness.session import Session
from daneel.harness.stop import Stop


def seen(attempt: Attempt, outcome: Outcome) -> Seen:
    """One call as the detectors see it."""
    arguments = outcome.record.arguments
    return Seen(
        attempt.tool.name if attempt.tool is not None else attempt.name or "",
        arguments if isinstance(arguments, dict) else {"": arguments},
        outcome.record.result or "",
        is_error=outcome.record.error is not None,
        may_repeat=attempt.tool is not None and attempt.tool.repeats,
        was_made=outcome.was_made,
    )


def noted(session: Session, firings: Sequence[Firing], texts: Sequence[str]) -> list[str]:
    """The results' texts, with a note behind those that a detector has something to say of."""
    policy, told = session.harness.recovery, list(texts)
    ends = any(firing.grade == "stop" for firing in firings)
    for firing in firings if not ends else ():
        if firing.grade != "note":
            continue
        wording = policy.no_progress if firing.detector == "no_progress" else policy.repeated_call
        note = wording.format(name=firing.names[0], times=firing.times)
        place = firing.call if firing.call is not None else len(told) - 1
        told[place] = f"{told[place]}\n{note}"
        _record(session, firing, text=note)
    return told


def act(session: Session, firings: Sequence[Firing]) -> None:
    """Hide tools for a turn, or end the run. Raises Stop."""
    for firing in firings:
        if firing.grade == "hide":
            _hide(session, firing)
        elif firing.grade == "stop":
            _record(session, firing)
            raise Stop("loop", firing.detail)


def _hide(session: Session, firing: Firing) -> None:
    left = [name for name in session.gates.open_names() if name not in firing.names]
    if left:
        for name in firing.names:
            session.gates.hide(name)
        _record(session, firing)
    else:
        # where nothing would be left to see, the tools stay declared, for the history refers to them, and may not be called
        _record(session, firing, changes=session.change(tool_choice="none"))


def _record(session: Session, firing: Firing, **more: object) -> None:
    session.recorder.event(
        "detected",
        detector=firing.detector,
        grade=firing.grade,
        times=firing.times,
        names=list(firing.names),
        detail=firing.detail,
        **more,
    )
