"""A `daneel serve` of our own for as long as a `with` block lasts.

`daneel run --serve MODEL` and `daneel measure --serve MODEL` use it: the server is another process, so the harness's floor
needs nothing of the server's. However the block ends (an exception, Ctrl-C, even a kill of this process) the server ends:
it is asked to stop, then killed, and it stops by itself when the pipe on its standard input closes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from daneel.errors import UserError

READY_LINE = re.compile(r"^Serving .* at (http://\S+)$")
"""What `daneel serve` prints on standard output when it is ready; group 1 is the base URL, `/v1` included."""

STOP_TIMEOUT_S = 10.0


class LocalServer:
    """Start a server on a free loopback port, wait until it is ready, and stop it at the end.

    `with LocalServer("smollm2-135m") as url:` gives the base URL (ending in `/v1`). `model` may be `None` for the scripted
    engine, which then says what a request's `script` holds. `extra_args` go to `daneel serve` as they
    are. Progress of the start (downloads, loading) goes line by line to `on_progress`, by default to standard error.
    Raises `UserError` with the server's own sentence when it cannot start, or when it takes longer than `ready_timeout_s`.
    """

    def __init__(
        self,
        model: str | Path | None,
        *,
        engine: str = "auto",
        extra_args: Sequence[str] = (),
        ready_timeout_s: float = 1800.0,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        self._command = [sys.executable, "-m", "daneel", "serve", "--engine", engine, "--port", "0", "--until-stdin-closes"]
        self._command += [*extra_args, *(["--", str(model)] if model is not None else [])]
        self._ready_timeout_s = ready_timeout_s
        self._on_progress = on_progress or (lambda line: print(line, file=sys.stderr))
        self._process: subprocess.Popen[str] | None = None
        self._url: str | None = None
        self._ready = threading.Event()
        self._last_lines: deque[str] = deque(maxlen=20)
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> str:
        # its own session: the terminal's Ctrl-C reaches this process only, which then stops the server in its own time
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._read_in_thread(self._process.stdout, self._read_stdout)
        self._read_in_thread(self._process.stderr, self._read_stderr)
        try:
            return self._wait_until_ready(self._process)
        except BaseException:
            self._stop()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def _read_in_thread(self, stream: IO[str], reader: Callable[[IO[str]], None]) -> None:
        thread = threading.Thread(target=reader, args=(stream,), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _read_stdout(self, stream: IO[str]) -> None:
        # read to the end, not only to the ready line: a full pipe would block the server
        for line in stream:
            if self._url is None and (match := READY_LINE.match(line.rstrip())):
                self._url = match[1]
                self._ready.set()
        self._ready.set()

    def _read_stderr(self, stream: IO[str]) -> None:
        for line in stream:
            text = line.rstrip()
            self._last_lines.append(text)
            if not self._ready.is_set() and not text.startswith("daneel: "):
                self._on_progress(text)

    def _wait_until_ready(self, process: subprocess.Popen[str]) -> str:
        deadline = time.monotonic() + self._ready_timeout_s
        while not self._ready.wait(timeout=0.2):  # short waits, so that Ctrl-C is seen at once
            if time.monotonic() > deadline:
                raise UserError(f"the server was not ready within {self._ready_timeout_s:.0f} s")
        if self._url is None:
            process.wait(timeout=STOP_TIMEOUT_S)
            self._threads[1].join(timeout=STOP_TIMEOUT_S)
            said = [line for line in self._last_lines if line.strip()]
            reason = said[-1].removeprefix("daneel: ") if said else f"exit code {process.returncode}"
            raise UserError(f"the server could not start: {reason}")
        return self._url

    def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        self._process = None
        try:
            if process.poll() is None:
                process.terminate()
                process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            for thread in self._threads:
                thread.join(timeout=STOP_TIMEOUT_S)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
