"""What all sandboxes share: what one is, and the shell that lowers its own limits before it runs a command."""

from __future__ import annotations

import os
import platform
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from daneel.harness.safety.processes import CommandLimits, CommandResult

SHELL = "/bin/sh"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
CANNOT_LIMIT = 126
"""The exit code of a shell that could not lower its limits, and so did not run the command."""

Runner = Callable[..., CommandResult]
"""`run_limited`, or a test's own."""


class NoSandbox(Exception):
    """Commands cannot be confined here. The message says why, and what would help."""


class Sandbox(Protocol):
    """Runs commands confined to a workspace."""

    @property
    def name(self) -> str: ...

    @property
    def confines(self) -> bool: ...

    def run(self, command: str, workspace: Path, limits: CommandLimits, *, network: bool) -> CommandResult:
        """Run a shell command in the workspace. Raises OSError when it cannot be started."""
        ...

    def with_readable(self, paths: tuple[Path, ...]) -> Sandbox:
        """The same, with further paths that commands may read."""
        ...


def limited_shell(command: str, limits: CommandLimits, *, has_own_user: bool) -> list[str]:
    """The command under a shell that first lowers its own limits; if it cannot, the command does not run.

    `has_own_user`: in a user namespace of its own the kernel counts its processes apart from the user's others.
    """
    wanted = [
        ("c", resource.RLIMIT_CORE, 0, 1),
        ("f", resource.RLIMIT_FSIZE, limits.max_file_bytes, 512),
        ("n", resource.RLIMIT_NOFILE, limits.max_open_files, 1),
        ("t", resource.RLIMIT_CPU, max(1, int(limits.timeout_s * 4)), 1),
    ]
    if sys.platform != "darwin":  # there the kernel does not keep this one; the watch over the processes does
        wanted.append(("d", resource.RLIMIT_DATA, limits.max_memory_bytes, 1024))
    failed = f"exit {CANNOT_LIMIT}"
    steps = [f"ulimit -{flag} {_no_more_than(kind, value) // unit} || {failed}" for flag, kind, value, unit in wanted]
    if has_own_user and _kernel() >= (5, 14):  # older ones count all processes of the user
        number = _no_more_than(resource.RLIMIT_NPROC, limits.max_processes)
        # shells differ in the letter, and some end at one that they do not know
        steps.append(f"if (ulimit -u {number}) 2>/dev/null; then ulimit -u {number}; else ulimit -p {number}; fi || {failed}")
    return [SHELL, "-c", "; ".join([*steps, 'exec "$@"']), SHELL, SHELL, "-c", command]


def _no_more_than(kind: int, value: int) -> int:
    """A limit can be lowered, not raised."""
    hard = resource.getrlimit(kind)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _kernel() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(found[1]), int(found[2])) if found and sys.platform.startswith("linux") else (0, 0)


def readable_paths(paths: tuple[str | os.PathLike[str], ...]) -> tuple[Path, ...]:
    """Paths outside of the workspace, made absolute."""
    return tuple(Path(path).expanduser().resolve() for path in paths)
