"""A child process that speaks frames: started apart from the terminal, its chatter kept, gone when the parent is gone."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
from typing import Any

from daneel.server.framing import AsyncFrames

_TAIL_BYTES = 16_384
_PR_SET_PDEATHSIG = 1  # Linux, <sys/prctl.h>


def die_with_parent() -> None:
    """Called in the child, first: on Linux the kernel kills it when the thread that started it ends.

    Elsewhere the end of file on the socket must do; a child waits for it in a thread of its own.
    """
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if parent != os.getppid():
            os._exit(0)  # the parent died before the call


class ChildProcess:
    """One running child. `frames` talks to it; what it wrote to stdout and stderr is in `last_lines`."""

    def __init__(self, process: asyncio.subprocess.Process, frames: AsyncFrames) -> None:
        self.frames = frames
        self._process = process
        self._tail = bytearray()
        self._tail_task = asyncio.create_task(self._keep_tail())

    @classmethod
    async def spawn(cls, module: str, message_type: Any) -> ChildProcess:
        """Run `python -m module FD` with one end of a socketpair as FD, in a session of its own.

        Its own session: Ctrl-C at the terminal reaches the server only, which then drains and closes its children. `-P`
        keeps files of the current directory from shadowing packages.
        """
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                module,
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, await AsyncFrames.open(ours, message_type))

    @property
    def pid(self) -> int:
        return self._process.pid

    async def _keep_tail(self) -> None:
        output = self._process.stdout
        if output is None:
            raise RuntimeError("the child was started without a pipe")
        while data := await output.read(4096):
            self._tail += data
            del self._tail[:-_TAIL_BYTES]

    def last_lines(self, num_lines: int = 20) -> list[str]:
        """The last non-empty lines the child wrote, oldest first."""
        lines = [line.strip() for line in self._tail.decode(errors="replace").splitlines()]
        return [line for line in lines if line][-num_lines:]

    async def exit_reason(self, grace_s: float = 2.0) -> str:
        """How it ended, for a message: after the end of `frames`; a child that does not end by itself is killed."""
        await self.end(grace_s)
        code = self._process.returncode
        if code is not None and code < 0:
            reason = f"killed by {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                reason += ", often the system's answer to a lack of memory"
        else:
            reason = f"exit code {code}"
        lines = self.last_lines(1)
        return f"{reason}: {lines[0]}" if lines else reason

    async def end(self, grace_s: float = 2.0) -> None:
        """Close the socket, wait up to `grace_s` for the child to end, then kill it. Safe to call twice."""
        await self.frames.close()
        try:
            await asyncio.wait_for(self._process.wait(), grace_s)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        # a grandchild could hold the pipe open for ever, so what is written is not waited for without limit
        await asyncio.wait([self._tail_task], timeout=1.0)
        self._tail_task.cancel()
