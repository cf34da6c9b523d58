"""Running one program to its end, or to its limits: time, memory, processes, output. Whatever it started ends with it."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LOOK_EVERY_S = 0.05
CHUNK_BYTES = 1 << 16

Stopped = Literal["time", "memory", "processes"]
Usage = tuple[int, int]
"""How many processes, and how many bytes of memory of their own they hold."""


@dataclass(frozen=True, kw_only=True)
class CommandLimits:
    """What one command may use."""

    timeout_s: float = 60.0
    max_memory_bytes: int = 2 << 30
    max_processes: int = 128
    max_output_bytes: int = 200_000
    """What is kept of its output: the beginning and the end."""
    max_file_bytes: int = 256 << 20
    max_open_files: int = 512
    max_temporary_bytes: int = 256 << 20


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How it ended. `stopped`: by which limit, if by one. `left_out_bytes` of the output are not in `output`."""

    exit_code: int | None
    output: str
    stopped: Stopped | None = None
    left_out_bytes: int = 0
    duration_s: float = 0.0


class Output:
    """The beginning and the end of what a program wrote, in bounded memory."""

    def __init__(self, max_bytes: int) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._half = max(1, max_bytes // 2)
        self.left_out_bytes = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(0, room) :]
        if (over := len(self._tail) - self._half) > 0:
            del self._tail[:over]
            self.left_out_bytes += over

    def text(self) -> str:
        """What was kept, as text; what was left out is counted where it stood."""
        head, tail = self._head.decode("utf-8", "replace"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[… {self.left_out_bytes} bytes left out …]\n{tail}" if self.left_out_bytes else head + tail


def run_limited(
    arguments: Sequence[str],
    limits: CommandLimits,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    usage: Callable[[int], Usage] | None = None,
) -> CommandResult:
    """Run a program, its output and errors together. Raises OSError when it cannot be started.

    `usage` looks at a process and all below it; by default the system is asked. Ctrl-C ends the program first.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=dict(environ),
        pass_fds=tuple(pass_fds),
        start_new_session=True,
    )
    output = Output(limits.max_output_bytes)
    try:
        stopped = _follow(process, output, limits, started, usage or usage_below)
    finally:
        end(process)
    code = None if stopped else process.returncode
    return CommandResult(code, output.text(), stopped, output.left_out_bytes, time.monotonic() - started)


def _follow(
    process: subprocess.Popen[bytes], output: Output, limits: CommandLimits, started: float, usage: Callable[[int], Usage]
) -> Stopped | None:
    """Read until the program has ended, or until a limit is passed; says which."""
    assert process.stdout is not None
    fd = process.stdout.fileno()
    os.set_blocking(fd, False)
    looked_at = started
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        is_open = True
        while True:
            has_ended = process.poll() is not None
            if is_open and selector.select(0 if has_ended else LOOK_EVERY_S):
                is_open = _read(fd, output)
            elif has_ended:  # what it left running may hold the pipe open for ever: all that is there has been read
                return None
            elif not is_open:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_EVERY_S)
            now = time.monotonic()
            if now - started > limits.timeout_s:
                return None if has_ended and not is_open else "time"
            if not has_ended and now - looked_at >= LOOK_EVERY_S:
                num_processes, memory_bytes = usage(process.pid)
                if num_processes > limits.max_processes:
                    return "processes"
                if memory_bytes > limits.max_memory_bytes:
                    return "memory"
                looked_at = time.monotonic()


def _read(fd: int, output: Output) -> bool:
    """Read once; whether there may be more."""
    try:
        data = os.read(fd, CHUNK_BYTES)
    except BlockingIOError:
        return True
    output.add(data)
    return bool(data)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program and its process group, without asking."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def usage_below(pid: int) -> Usage:
    """Processes and memory of a process and all below it."""
    if sys.platform == "darwin":
        return _usage_by_ps(pid)
    num_processes = memory_bytes = 0
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        num_processes += 1
        memory_bytes += _own_memory_bytes(current)
        waiting += _children(current)
    return num_processes, memory_bytes


def _children(pid: int) -> Iterable[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def _own_memory_bytes(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


def _usage_by_ps(pid: int) -> Usage:
    try:
        listed = subprocess.run(["/bin/ps", "-axo", "pid=,ppid=,rss="], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 1, 0
    return usage_of_table(listed.stdout, pid)


def usage_of_table(table: str, pid: int) -> Usage:
    """Usage below a process in a table of lines `pid ppid rss-in-kilobytes`."""
    rows = [tuple(map(int, line.split())) for line in table.splitlines() if len(line.split()) == 3]
    memory = {row[0]: row[2] * 1024 for row in rows}
    below: dict[int, list[int]] = {}
    for row in rows:
        below.setdefault(row[1], []).append(row[0])
    num_processes = memory_bytes = 0
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        num_processes += 1
        memory_bytes += memory.get(current, 0)
        waiting += below.get(current, [])
    return num_processes, memory_bytes
