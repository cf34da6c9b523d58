"""A fresh folder for each trial of a goal that has a set-up: always at the same path within one process, and current there.

The path stays the same so that tools which were bound to it when their file was loaded (`file_tools(".")`) find each trial's
files, and so that no trial's prompt differs from another's by a path.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from daneel.errors import UserError
from daneel.harness.definition import Goal
from daneel.harness.raised import described, forks_end_here, is_interrupt


class WorkFolder:
    """One folder, emptied before and after each use. A context manager: it is gone at the end. Raises `UserError`.

    `base`: where it is to be; by default in the system's folder for temporary files. The current folder belongs to the whole
    process: one trial at a time.
    """

    def __init__(self, base: Path | None = None) -> None:
        self._base: Path | None = base

    def __enter__(self) -> WorkFolder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._base is not None:
            remove(self._base)
            self._base = None

    @property
    def path(self) -> Path:
        """Where it is; made when it is first asked for."""
        if self._base is None:
            try:
                self._base = Path(tempfile.mkdtemp(prefix="daneel-trial-")).resolve()
            except OSError as error:
                raise UserError(f"no folder for trials can be made in {tempfile.gettempdir()}: {error.strerror}") from error
        return self._base / "workspace"

    @contextmanager
    def entered(self) -> Iterator[Path]:
        """The folder, empty and current."""
        before = Path.cwd()
        path = self.path
        try:
            remove(path)
            path.mkdir(parents=True)
            os.chdir(path)
        except OSError as error:
            raise UserError(f"the folder for trials {path} cannot be emptied: {error.strerror or error}") from error
        try:
            yield path
        finally:
            os.chdir(before)
            remove(path)

    @contextmanager
    def filled_by(self, goal: Goal) -> Iterator[Path]:
        """The folder as the goal's set-up leaves it, current. Raises `UserError` with whatever the set-up raised."""
        with self.entered() as path:
            if goal.setup is not None:
                try:
                    with forks_end_here():
                        goal.setup(path)
                except BaseException as error:  # a person's own code may raise anything
                    if is_interrupt(error):
                        raise
                    raise UserError(f"the set-up of goal {goal.name} raised {described(error)}") from error
            yield path


def remove(path: Path) -> None:
    """Remove a folder and all in it, also where a trial has taken away its own right to."""

    def allow(function: object, failed: str, _: object) -> None:
        with suppress(OSError):
            os.chmod(os.path.dirname(failed), 0o700)
            os.chmod(failed, 0o700)
            if os.path.isdir(failed) and not os.path.islink(failed):
                shutil.rmtree(failed, ignore_errors=True)
            else:
                os.unlink(failed)

    if path.is_symlink() or path.is_file():
        path.unlink()
    shutil.rmtree(path, onerror=allow)
