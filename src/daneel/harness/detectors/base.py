"""What detectors are given and what they say. They are pure: no clock, no I/O, the same for a stored run as for a live one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Grade = Literal["note", "hide", "stop"]
"""What follows: a note to the model, the tool out of sight for a turn, the end of the run."""

GRADES: tuple[Grade, ...] = ("note", "hide", "stop")


@dataclass(frozen=True, slots=True)
class Seen:
    """One call as a detector sees it. `may_repeat`: its tool is declared with `repeats=True`."""

    name: str
    arguments: dict[str, Any]
    result: str
    is_error: bool = False
    may_repeat: bool = False
    was_made: bool = True


@dataclass(frozen=True, slots=True)
class Firing:
    """A detector that fired. `call`: the place among the turn's calls that it is about; None for the turn as a whole."""

    detector: str
    grade: Grade
    times: int
    names: tuple[str, ...]
    detail: str
    call: int | None = None


class CallDetector(Protocol):
    """Looks at the calls of one turn after the other."""

    def turn(self, calls: Sequence[Seen]) -> list[Firing]:
        """What fires with this turn's calls, which are at least one."""
        ...


def grade_at(times: int, note_at: int, hide_at: int, stop_at: int) -> Grade | None:
    """The highest grade whose threshold is reached."""
    for grade, threshold in (("stop", stop_at), ("hide", hide_at), ("note", note_at)):
        if times >= threshold:
            return grade  # type: ignore[return-value]
    return None
