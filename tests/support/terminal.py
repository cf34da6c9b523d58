"""`daneel` at a terminal of its own (a pty): a person who reads what is shown, and types."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

TIMEOUT_S = 30.0


class Terminal:
    """`daneel` with these arguments. A person reads `until()` something is shown, and can `type()`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        command = [sys.executable, "-m", "daneel", *arguments]
        env = {**os.environ, "TERM": "dumb", "COLUMNS": "100"}

        def own_terminal() -> None:  # so that ^C in it is Ctrl-C for the process
            os.setsid()
            import fcntl
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=env, preexec_fn=own_terminal
        )
        os.close(slave)
        self.shown = ""
        self._read = 0

    def until(self, wanted: str) -> str:
        """Read until this is shown, beyond what was read before."""
        end = time.monotonic() + TIMEOUT_S
        while wanted not in self.shown[self._read :]:
            left = end - time.monotonic()
            assert left > 0, f"{wanted!r} was not shown: {self.shown[self._read :]!r}"
            if select.select([self.master], [], [], min(left, 0.2))[0] and not self._more():
                raise AssertionError(f"it ended before {wanted!r} was shown: {self.shown[self._read :]!r}")
        start = self._read
        self._read = self.shown.index(wanted, start) + len(wanted)
        return self.shown[start : self._read]

    def _more(self) -> bool:
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def ended(self) -> int:
        end = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end: {self.shown!r}"
            if select.select([self.master], [], [], 0.05)[0]:
                self._more()
        while select.select([self.master], [], [], 0)[0] and self._more():
            pass
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
