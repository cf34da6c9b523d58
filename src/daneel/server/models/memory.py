"""How much memory this process may use: the machine's, or what its container leaves of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_PROC_CGROUP = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Memory:
    """`available_bytes` can be had now without swapping; `total_bytes` is the most there can ever be.

    `limited_by` names what sets the limit: `machine` or `container`.
    """

    available_bytes: int
    total_bytes: int
    limited_by: str = "machine"


def memory_now(root: Path = _CGROUP_ROOT, proc: Path = _PROC_CGROUP) -> Memory:
    """Main memory as it is now; a control group's limit counts where it is the smaller."""
    import psutil

    machine = psutil.virtual_memory()
    memory = Memory(machine.available, machine.total)
    for folder in _cgroups(root, proc):
        limit, used = _limit_and_use(folder)
        if limit is not None and limit < memory.total_bytes:
            free = max(0, limit - used)
            memory = Memory(min(free, memory.available_bytes), limit, "container")
    return memory


def _cgroups(root: Path, proc: Path) -> Iterator[Path]:
    """This process's control groups and their parents, for memory; both versions of the interface."""
    try:
        lines = proc.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        _number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if controllers == "" or "memory" in controllers.split(","):
            base = root if controllers == "" else root / "memory"
            folder = base / name.lstrip("/")
            while folder != base and base in folder.parents:
                yield folder
                folder = folder.parent
            # inside a container the group's own folder is mounted as the root
            yield base


def _limit_and_use(folder: Path) -> tuple[int | None, int]:
    """The limit (None: no limit), and what is used of it beyond what can be given back: file pages."""
    for limit_name, use_name, pages in (
        ("memory.max", "memory.current", ("inactive_file", "active_file")),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
    ):
        limit = _number(folder / limit_name)
        if limit is not None:
            given_back = _stat(folder / "memory.stat", pages)
            return limit, max(0, (_number(folder / use_name) or 0) - given_back)
    return None, 0


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() else None


def _stat(path: Path, keys: tuple[str, ...]) -> int:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return 0
    rows = (line.split() for line in lines)
    return sum(int(row[1]) for row in rows if len(row) == 2 and row[0] in keys and row[1].isdecimal())
