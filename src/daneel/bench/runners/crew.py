"""Worker processes of this machine, as the owner has them: started, given work, listened to, and ended."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from daneel.bench.runners.link import Link, Ready, ToOwner, ToWorker, WorkerSetup
from daneel.bench.slot import Slot
from daneel.bench.workspace import remove
from daneel.errors import UserError

CANCEL_S = 15.0
"""So long after Ctrl-C workers have for the row of a trial that was cut short."""
LEAVE_S = 2.0
"""So long a worker with nothing to do may take to end."""
MAX_FAILED_STARTS = 5
"""After so many workers in a row that died before they were ready, no more are started."""


class Hand:
    """One worker process. `slot`: the place it is at, if any."""

    def __init__(self, process: subprocess.Popen[bytes], link: Link, folder: Path) -> None:
        self.process = process
        self.link = link
        self.folder = folder
        self.slot: Slot | None = None
        self.is_ready = False
        self.is_gone = False

    def send(self, message: ToWorker) -> bool:
        """False when it is gone."""
        try:
            self.link.send(message)
        except OSError:
            return False
        return True

    def messages(self) -> list[ToOwner]:
        """What it says, `Ready` apart; nothing, and `is_gone`, when it is gone or speaks what cannot be read."""
        try:
            said = self.link.from_worker()
        except (OSError, EOFError, msgspec.MsgspecError):
            self.is_gone = True
            return []
        self.is_ready = self.is_ready or any(isinstance(message, Ready) for message in said)
        return [message for message in said if not isinstance(message, Ready)]

    def end(self, *, at_once: bool) -> str:
        """End the process, with whatever it started in its session; says how it ended."""
        with suppress(OSError):
            self.link.close()
        if not at_once:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LEAVE_S)
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)  # its session: tools may have left something running there
        code = self.process.wait()
        remove(self.folder)
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


class Crew:
    """All of them. A context manager: at its end none is left. `setup` makes what worker number N is told first."""

    def __init__(self, setup: Callable[[int, Path], WorkerSetup]) -> None:
        self._setup = setup
        self._hands: list[Hand] = []
        self._num_started = 0
        self._num_failed_starts = 0
        self._deadline: float | None = None
        self._base: Path | None = None

    def __enter__(self) -> Crew:
        try:
            self._base = Path(tempfile.mkdtemp(prefix="daneel-trials-")).resolve()
        except OSError as error:
            raise UserError(f"no folder for trials can be made in {tempfile.gettempdir()}: {error.strerror}") from error
        return self

    def __exit__(self, *_: object) -> None:
        for hand in self._hands:
            if hand.slot is None:
                with suppress(OSError):
                    hand.link.close()  # all at once, then waited for one by one
        for hand in self._hands:
            hand.end(at_once=hand.slot is not None)
        self._hands.clear()
        if self._base is not None:
            remove(self._base)

    @property
    def num_busy(self) -> int:
        return len(self.busy())

    def busy(self) -> list[Hand]:
        """Those that are at a place."""
        return [hand for hand in self._hands if hand.slot is not None]

    def idle(self) -> Hand:
        """One without work; started if there is none. Raises `UserError` when workers cannot be started."""
        waiting = [hand for hand in self._hands if hand.slot is None]
        return waiting[0] if waiting else self._start()

    def _start(self) -> Hand:
        assert self._base is not None
        number = self._num_started
        self._num_started += 1
        ours, theirs = socket.socketpair()
        with theirs:
            # a session of its own: Ctrl-C at the terminal is for the owner, who tells its workers
            try:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "daneel.bench.runners.worker", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise UserError(f"no worker process can be started: {error}") from error
        folder = self._base / str(number)
        hand = Hand(process, Link(ours), folder)
        self._hands.append(hand)
        hand.send(self._setup(number, folder))
        return hand

    def heard(self) -> list[Hand]:
        """Waits until workers that are at a place have something to say; nobody, when the deadline passes first."""
        with selectors.DefaultSelector() as selector:
            for hand in self.busy():
                selector.register(hand.link, selectors.EVENT_READ, hand)
            left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            return [key.data for key, _ in selector.select(left)]

    def set_deadline(self, seconds: float) -> None:
        """From now on, waiting ends after `seconds`."""
        self._deadline = time.monotonic() + seconds

    def bury(self, hand: Hand) -> str:
        """A worker is gone; says how. Raises `UserError` when none gets ready any more."""
        self._hands.remove(hand)
        how = hand.end(at_once=False)
        self._num_failed_starts = 0 if hand.is_ready else self._num_failed_starts + 1
        if self._num_failed_starts >= MAX_FAILED_STARTS:
            raise UserError(f"worker processes do not start: {MAX_FAILED_STARTS} in a row, and the last one {how}")
        return how
