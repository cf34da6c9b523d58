"""Commands in bubblewrap: the workspace to write in, the system's programs to read, a seccomp filter, and nothing else.

Its own user, process, network, IPC, host name and control group namespaces; no capabilities; no environment; no terminal; a
small `/tmp` in memory. What ends the command ends all that it started, since they share a process namespace.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from daneel.harness.safety.confinement import PATH, NoSandbox, Runner, limited_shell
from daneel.harness.safety.patterns import PROTECTED
from daneel.harness.safety.processes import CommandLimits, CommandResult, run_limited
from daneel.harness.safety.seccomp import program

INSIDE = "/workspace"
"""Where a command finds its workspace: the same place on every machine."""
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_READABLE = (
    *("/usr", "/nix/store", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/localtime", "/etc/mime.types", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls"),
)
_FOR_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services")


@dataclass(frozen=True)
class Bubblewrap:
    """`program` is bubblewrap's own; `options` those of its options that older ones lack and this one has."""

    program: str
    options: frozenset[str] = frozenset({"--size", "--disable-userns"})
    machine: str = field(default_factory=platform.machine)
    runner: Runner = run_limited
    readable: tuple[Path, ...] = ()
    name: str = "bubblewrap"
    confines: bool = True

    @staticmethod
    def find() -> Bubblewrap:
        """Bubblewrap as it is installed here. Raises NoSandbox."""
        found = shutil.which("bwrap", path=f"{os.environ.get('PATH', '')}:{PATH}")
        if found is None:
            raise NoSandbox("bubblewrap is not installed; install the package bubblewrap (it has the program bwrap)")
        try:
            said = subprocess.run([found, "--help"], capture_output=True, text=True, timeout=10, check=False).stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoSandbox(f"{found} cannot be started: {error}") from error
        known = frozenset(option for option in ("--size", "--disable-userns") if option in said)
        return Bubblewrap(os.path.realpath(found), known)

    def run(self, command: str, workspace: Path, limits: CommandLimits, *, network: bool) -> CommandResult:
        """Run a shell command in the workspace. Raises OSError when it cannot be started, NoSandbox without a filter."""
        code = program(self.machine, network=network)
        if code is None:
            raise NoSandbox(f"there is no seccomp filter for {self.machine} processors")
        filter_fd = os.memfd_create("seccomp")
        try:
            os.write(filter_fd, code)
            os.lseek(filter_fd, 0, os.SEEK_SET)
            arguments = self.arguments(workspace, limits, filter_fd, network=network)
            arguments += limited_shell(command, limits, has_own_user=True)
            environ = {"PATH": PATH, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "TERM": "dumb"}
            return self.runner(arguments, limits, cwd=Path("/"), environ=environ, pass_fds=[filter_fd])
        finally:
            os.close(filter_fd)

    def with_readable(self, paths: tuple[Path, ...]) -> Bubblewrap:
        """The same, with further paths that commands may read."""
        return replace(self, readable=paths)

    def arguments(self, workspace: Path, limits: CommandLimits, filter_fd: int, *, network: bool) -> list[str]:
        """Bubblewrap's own arguments, up to the program it shall run."""
        size = ["--size", str(limits.max_temporary_bytes)] if "--size" in self.options else []
        shared_memory_size = ["--size", str(limits.max_temporary_bytes // 4)] if size else []
        whole_root = workspace == Path("/")  # the probe: nothing of the machine is needed, so nothing is shown
        return [
            self.program,
            *("--unshare-all", "--unshare-user", *(["--share-net"] if network else [])),
            *(["--disable-userns"] if "--disable-userns" in self.options else []),
            *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--cap-drop", "ALL"),
            *("--die-with-parent", "--new-session", "--seccomp", str(filter_fd)),
            *_system(),
            *_bound("--ro-bind-try", _READABLE),
            *(_bound("--ro-bind-try", _FOR_NETWORK) if network else []),
            *("--proc", "/proc", "--dev", "/dev", *shared_memory_size, "--tmpfs", "/dev/shm", *size, "--tmpfs", "/tmp"),
            *_bound("--ro-bind", map(str, self.readable)),
            *(["--dir", INSIDE] if whole_root else ["--bind", str(workspace), INSIDE, *_protected(workspace)]),
            *("--chdir", INSIDE, "--"),
        ]


def _bound(option: str, paths: Iterable[str]) -> list[str]:
    return [part for path in paths for part in (option, path, path)]


def _system() -> list[str]:
    """`/bin` and its like: links into `/usr` on most systems, folders on others."""
    parts: list[str] = []
    for path in _SYSTEM:
        if os.path.islink(path):
            parts += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            parts += ["--ro-bind", path, path]
    return parts


def _protected(workspace: Path) -> list[str]:
    """What programs outside obey (git's hooks and settings) cannot be written, where it is there."""
    parts: list[str] = []
    for name in PROTECTED:
        path = workspace / name
        # a link would be followed by bubblewrap, to whatever it leads to
        if path.exists() and os.path.realpath(path) == str(path):
            parts += ["--ro-bind", str(path), f"{INSIDE}/{name}"]
    return parts
