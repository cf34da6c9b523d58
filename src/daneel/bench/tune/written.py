"""The winner as a harness file: it loads the file it came from, and makes the confirmed edits, in plain Python."""

from __future__ import annotations

import difflib
import json
import keyword
import os
import re
from collections.abc import Sequence
from pathlib import Path

from daneel.bench.tune.edits import Edit, edited
from daneel.errors import UserError
from daneel.harness.definition import Harness
from daneel.harness.files import load

_TEMPLATE = '''"""{about}

Made by `daneel tune`, of the harness {harness} in {base}: keep that file where it is. A change there changes this harness, too.
"""

from pathlib import Path

from daneel.bench.tune.edits import {imports}, edited
from daneel.harness.files import load

base = load(Path(__file__).resolve().parent / {path!r})

EDITS = [
{edits}
]

{variable} = edited(base.harness({harness!r}), EDITS).with_changes(name={name!r})
{goals}'''
_TAKEN = frozenset({"base", "load", "edited", "Path", "EDITS"})


def file_text(out: Path, base: Path, harness: str, edits: Sequence[Edit], *, goals: Sequence[str], about: str) -> str:
    """The source of the file: `out`, which is to stand where it is told, with the edits of `harness` in the file `base`.

    `goals`: names of goals in that file, which this one has as well.
    """
    name = tuned_name(harness)
    variable = name if name.isidentifier() and not keyword.iskeyword(name) and name not in _TAKEN else "harness"
    taken = {*_TAKEN, variable, *(type(edit).__name__ for edit in edits)}
    lines = []
    for number, goal in enumerate(goals, start=1):
        usable = goal.isidentifier() and not keyword.iskeyword(goal) and goal not in taken
        lines.append(f"{goal if usable else f'goal_{number}'} = base.goal({goal!r})\n")
        taken.add(goal)
    return _TEMPLATE.format(
        about=re.sub(r'["\\]', "'", about),
        harness=harness,
        base=re.sub(r'["\\]', "'", base.name),
        imports=", ".join(sorted({type(edit).__name__ for edit in edits})),
        path=os.path.relpath(base.resolve(), out.resolve().parent),
        edits="\n".join(f"    {edit!r}," for edit in edits),
        variable=variable,
        name=name,
        goals="".join(lines),
    )


def tuned_name(harness: str) -> str:
    """What the tuned harness is called."""
    return f"{harness}_tuned"


def write(out: Path, text: str, expected: Harness, *, name: str, force: bool) -> None:
    """Write the file, whole or not at all, once it has been seen to give exactly the `expected` harness.

    Raises `UserError` when it does not, when there is a file already and not `force`, or it cannot be written.
    """
    refuse_existing(out, force=force)
    draft = out.with_name(f".{out.stem}_{os.getpid()}.py")
    try:
        draft.write_text(text, encoding="utf-8")
        found = load(draft).harness(name)
        if found.fingerprint() != expected.fingerprint() or found.declarations() != expected.declarations():
            raise UserError(f"{out}: the file would not give the harness that was confirmed; it was not written")
        draft.replace(out)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


def refuse_existing(out: Path, *, force: bool) -> None:
    """Raises `UserError` for a file that there is, or a folder that there is not."""
    if out.suffix != ".py":
        raise UserError(f"--out must name a Python file, ending in .py, not {out}")
    if not out.parent.is_dir():
        raise UserError(f"--out: there is no folder {out.parent}")
    if out.exists() and not force:
        raise UserError(f"{out} is there already; give --out another name, or --force to replace it")


def declared_diff(before: Harness, after: Harness) -> str:
    """What the model sees of the two, system prompt and declarations, as a unified diff; empty where that is the same."""
    lines = difflib.unified_diff(
        _seen(before), _seen(after), fromfile=before.name or "before", tofile=after.name or "after", lineterm="", n=2
    )
    return "\n".join(lines)


def _seen(harness: Harness) -> list[str]:
    system = [] if harness.system is None else ["system:", *(f"  {line}" for line in harness.system.splitlines())]
    return [*system, *json.dumps(harness.declarations(), indent=1, ensure_ascii=False).splitlines()]


def confirmed(base: Path, harness: str, edits: Sequence[Edit]) -> Harness:
    """The harness that a written file must give. Raises `UserError`."""
    return edited(load(base).harness(harness), edits)
