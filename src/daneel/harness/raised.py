"""What a person's own code (a tool, a check, a harness file) raised, as text that can be shown, stored and sent."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def is_interrupt(error: BaseException) -> bool:
    """Whether it is Ctrl-C, which belongs to whoever runs the program and is never the code's own failure.

    Everything else is: `sys.exit()` in a tool or a check must not end a run, or a measurement of hours, without a word.
    """
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


@contextmanager
def forks_end_here() -> Iterator[None]:
    """Around a person's own code: a child that it forked and that comes back ends, so that nothing is done or told twice."""
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            os._exit(0)  # not by raising: what is open belongs to the parent


class ToolFailure(Exception):
    """A tool could not do what it was asked. The message is written for the model, and shown to it without its kind.

    Say what is wrong and what to do next; never quote what a file or a server said: that is for results.
    """


def described(error: BaseException) -> str:
    """`ValueError: what it says`, or only the kind; of a ToolFailure what it says. Never raises, though `__str__` may."""
    kind = type(error).__name__
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - `__str__` is a person's own code too
        return kind
    said = said.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent
    if isinstance(error, ToolFailure) and said:
        return said
    return f"{kind}: {said}" if said else kind
