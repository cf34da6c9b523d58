"""Which process is at work on a run, told so that another one with the same number is not taken for it."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def identity() -> str:
    """This process: its number and, where the system tells, when it began. Also right after a fork."""
    return _identity(os.getpid())


@cache
def _identity(pid: int) -> str:
    return f"{pid} {_began(pid) or ''}".strip()


def is_alive(process: str) -> bool:
    """Whether the process of this identity still runs. One of the same number that began at another time is not it."""
    number, _, began = process.partition(" ")
    if not number.isdigit() or not _exists(int(number)):
        return False
    return not began or began == (_began(int(number)) or began)


def _exists(pid: int) -> bool:
    if sys.platform == "win32":  # signal 0 would end the process there
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _began(pid: int) -> str | None:
    """When a process began, in the system's own terms."""
    if _BOOT_ID.exists():
        try:
            # the name, in brackets, may hold blanks; field 22 of all is the 20th after it
            ticks = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
            return f"{_BOOT_ID.read_text().strip()}/{ticks}"
        except (OSError, IndexError):
            return None
    try:
        listed = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return listed.stdout.strip() or None
