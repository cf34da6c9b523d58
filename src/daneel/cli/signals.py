"""SIGTERM, as systemd, launchd and `kill` send it: a run then ends as with Ctrl-C, its record closed and its server stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

TERMINATED = 143
"""Exit code after SIGTERM, as shells have it: 128 + SIGTERM."""


@dataclass
class Sigterm:
    """Whether SIGTERM has come."""

    came: bool = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt


@contextmanager
def ends_on_sigterm() -> Iterator[Sigterm]:
    """Within it, SIGTERM is as Ctrl-C wherever the program stands; one that nobody caught ends the program with `TERMINATED`.

    Does nothing outside the main thread.
    """
    sigterm = Sigterm()
    if threading.current_thread() is not threading.main_thread():
        yield sigterm
        return
    before = signal.signal(signal.SIGTERM, sigterm.handle)
    try:
        yield sigterm
    except KeyboardInterrupt:
        if sigterm.came:
            raise SystemExit(TERMINATED) from None  # nobody within has made an end of its own of it
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
