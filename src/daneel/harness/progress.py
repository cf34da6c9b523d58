"""Deadlines on progress: a stream that only keeps its connection warm is dead.

Reading from a socket can be given a time limit per read, which every byte renews. Here a thread beside the reader holds one
deadline that only progress moves, and shuts the socket down when it passes: the reader then wakes up at once.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from queue import Empty, SimpleQueue
from types import TracebackType

_PROGRESS_COMMENT = re.compile(r"keepalive \d+/\d+|tool_call \S.* \d+|prefill_progress \{.*\}")


class ProgressWatch:
    """Shuts `connection` down when a deadline passes; a context manager. `fired` then says which deadline it was.

    `stall_s` is the time allowed without progress until `progress()` is called, `end_at` (monotonic seconds) the end of the
    time given to the whole request.
    """

    def __init__(self, connection: socket.socket | None, *, stall_s: float, end_at: float | None) -> None:
        self.fired: str | None = None
        self._connection = connection
        self._end_at = end_at
        self._stall_at = time.monotonic() + stall_s
        self._stopped = False
        # no Condition or Event: Ctrl-C can come right after such a lock was taken, and before it would be given back
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="daneel-progress-watch", daemon=True)

    def progress(self, stall_s: float) -> None:
        """Something came: the next must come within `stall_s`."""
        before, self._stall_at = self._stall_at, time.monotonic() + stall_s
        if self._stall_at < before:
            self._wakes.put(None)

    def __enter__(self) -> ProgressWatch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopped = True
        self._wakes.put(None)
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped:
            deadline = self._stall_at if self._end_at is None else min(self._stall_at, self._end_at)
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                self.fired = "end" if deadline == self._end_at else "stall"
                shut_down(self._connection)
                return
            with contextlib.suppress(Empty):
                self._wakes.get(timeout=min(left_s, threading.TIMEOUT_MAX))


class CommentProgress:
    """Tells comments that report progress (`keepalive N/M`, `tool_call NAME N`) from those that only keep the line open."""

    def __init__(self) -> None:
        self._last = ""

    def moved(self, comment: str) -> bool:
        """Whether this comment says that something has happened since the last."""
        text = comment.strip()
        if not _PROGRESS_COMMENT.fullmatch(text) or text == self._last:
            return False
        self._last = text
        return True


def shut_down(connection: socket.socket | None) -> None:
    """End a connection that another thread may be reading from; closing it would not wake that thread."""
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
