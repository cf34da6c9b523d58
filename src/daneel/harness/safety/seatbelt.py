"""Commands in macOS's sandbox-exec: a profile that denies all but the system's programs and the workspace."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from daneel.harness.safety.confinement import PATH, NoSandbox, Runner, limited_shell
from daneel.harness.safety.patterns import PROTECTED
from daneel.harness.safety.processes import CommandLimits, CommandResult, run_limited

PROGRAM = "/usr/bin/sandbox-exec"
_PROFILE = """(version 1)
(deny default)
(allow process-exec process-fork)
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow file-read*
  (literal "/") (subpath "/usr") (subpath "/bin") (subpath "/sbin") (subpath "/System") (subpath "/Library/Developer")
  (subpath "/Library/Frameworks") (subpath "/opt/homebrew") (subpath "/private/etc/ssl") (subpath "/private/var/select")
  (subpath "/private/var/db/timezone") (literal "/private/etc/localtime") (literal "/dev/null") (literal "/dev/zero")
  (literal "/dev/random") (literal "/dev/urandom") (literal "/dev/fd") (subpath (param "WORKSPACE")) (subpath (param "TMP")))
(allow file-write*
  (subpath (param "WORKSPACE")) (subpath (param "TMP")) (literal "/dev/null") (literal "/dev/zero"))
"""
_NETWORK = """(allow network-outbound (remote ip "*:*"))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow file-read* (literal "/private/etc/resolv.conf") (literal "/private/etc/hosts") (literal "/private/etc/services"))
(allow system-socket)
"""


@dataclass(frozen=True)
class Seatbelt:
    """`readable`: further paths that commands may read."""

    runner: Runner = run_limited
    readable: tuple[Path, ...] = ()
    name: str = "sandbox-exec"
    confines: bool = True

    @staticmethod
    def find() -> Seatbelt:
        """sandbox-exec as macOS has it. Raises NoSandbox."""
        if not os.access(PROGRAM, os.X_OK):
            raise NoSandbox(f"{PROGRAM} is not there")
        return Seatbelt()

    def run(self, command: str, workspace: Path, limits: CommandLimits, *, network: bool) -> CommandResult:
        """Run a shell command in the workspace, with a folder for temporary files that goes away again."""
        temporary = Path(tempfile.mkdtemp(prefix="daneel-")).resolve()
        inside = temporary if workspace == Path("/") else workspace  # the probe needs nothing of the machine
        try:
            arguments = self.arguments(inside, temporary, network=network)
            arguments += limited_shell(command, limits, has_own_user=False)
            environ = {"PATH": PATH, "HOME": str(temporary), "TMPDIR": str(temporary), "LANG": "C.UTF-8", "TERM": "dumb"}
            return self.runner(arguments, limits, cwd=inside, environ=environ)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def with_readable(self, paths: tuple[Path, ...]) -> Seatbelt:
        """The same, with further paths that commands may read."""
        return replace(self, readable=paths)

    def arguments(self, workspace: Path, temporary: Path, *, network: bool) -> list[str]:
        """sandbox-exec's own arguments. Paths go in as parameters: a name cannot end a string of the profile."""
        named = {"WORKSPACE": workspace, "TMP": temporary}
        rules = [_PROFILE, _NETWORK if network else ""]
        for number, path in enumerate(self.readable):
            named[f"READABLE{number}"] = path
            rules.append(f'(allow file-read* (subpath (param "READABLE{number}")))\n')
        for number, name in enumerate(PROTECTED):
            named[f"PROTECTED{number}"] = workspace / name
            rules.append(f'(deny file-write* (subpath (param "PROTECTED{number}")))\n')
        parameters = [part for name, path in named.items() for part in ("-D", f"{name}={path}")]
        return [PROGRAM, *parameters, "-p", "".join(rules)]
