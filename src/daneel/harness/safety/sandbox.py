"""Where commands run: in bubblewrap with a seccomp filter on Linux, in sandbox-exec on macOS, and nowhere else unasked.

`find_sandbox()` tries what this machine has and raises NoSandbox with the reason when nothing holds: a command then does not
run at all, unless a person has said `--no-sandbox`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from daneel.harness.safety.bubblewrap import Bubblewrap
from daneel.harness.safety.confinement import PATH, NoSandbox, Runner, Sandbox, limited_shell
from daneel.harness.safety.processes import CommandLimits, CommandResult, run_limited
from daneel.harness.safety.seatbelt import Seatbelt

PROBE_LIMITS = CommandLimits(timeout_s=20.0)


@lru_cache(maxsize=1)
def find_sandbox() -> Sandbox:
    """The sandbox of this machine, tried out once. Raises NoSandbox."""
    if sys.platform == "darwin":
        sandbox: Sandbox = Seatbelt.find()
    elif sys.platform.startswith("linux"):
        sandbox = Bubblewrap.find()
    else:
        raise NoSandbox(f"daneel knows no sandbox for {sys.platform}")
    check(sandbox)
    return sandbox


def check(sandbox: Sandbox) -> None:
    """Raises NoSandbox unless the sandbox runs a command here, in a workspace of nothing."""
    try:
        result = sandbox.run("echo held", Path("/"), PROBE_LIMITS, network=False)
    except OSError as error:
        raise NoSandbox(f"{sandbox.name} cannot be started: {error.strerror or error}") from error
    if result.exit_code != 0 or "held" not in result.output:
        said = " ".join(result.output.split())[:300] or f"it ended with {result.exit_code}"
        raise NoSandbox(f"{sandbox.name} does not work here: {said}")


@dataclass(frozen=True)
class Unconfined:
    """No sandbox at all, because a person wants none: the command may do what this program may. Limits hold all the same."""

    runner: Runner = run_limited
    name: str = "none"
    confines: bool = False

    def run(self, command: str, workspace: Path, limits: CommandLimits, *, network: bool) -> CommandResult:
        """Run a shell command in the workspace. `network` cannot be kept from it."""
        environ = {"PATH": PATH, "HOME": str(workspace), "LANG": "C.UTF-8", "TERM": "dumb"}
        return self.runner(limited_shell(command, limits, has_own_user=False), limits, cwd=workspace, environ=environ)

    def with_readable(self, paths: tuple[Path, ...]) -> Unconfined:
        """Itself: it can read all that there is."""
        return self
