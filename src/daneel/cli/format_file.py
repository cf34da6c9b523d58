"""`--format-file`: a Python file that holds a format of a person's own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

from daneel.errors import UserError
from daneel.formats.family import Family
from daneel.formats.user_format import UserFamily, UserFormat
from daneel.harness.files import execute


def customiser(path: Path) -> Callable[[Family], Family]:
    """What puts the file's format into a family, under the file's name. Raises `UserError`.

    When the format fails on a reply, that is said on standard error.
    """
    module = execute(path)
    formats = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, UserFormat) and value.__module__ == module.__name__
    }
    if len(formats) != 1:
        found = f"it has {', '.join(formats)}" if formats else "it has none"
        raise UserError(f"{path}: must hold one class that is a daneel.formats.user_format.UserFormat; {found}")
    [user_format] = formats.values()
    if user_format.read is UserFormat.read:
        raise UserError(f"{path}: the class {user_format.__name__} needs a method read(self, text, final)")
    return functools.partial(UserFamily.of, user_format=user_format, name=path.stem, on_problem=_tell)


def _tell(problem: str) -> None:
    print(f"daneel: {problem}", file=sys.stderr, flush=True)
