"""`run_command`: a shell command in the workspace, in a sandbox or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from daneel.harness.definition import Harness
from daneel.harness.raised import ToolFailure
from daneel.harness.safety.confinement import CANNOT_LIMIT, NoSandbox, Sandbox, readable_paths
from daneel.harness.safety.paths import Workspace
from daneel.harness.safety.processes import CommandLimits, CommandResult
from daneel.harness.safety.sandbox import Unconfined, find_sandbox
from daneel.harness.safety.targets import ToolSafety, safety_of
from daneel.harness.safety.untrusted import fence
from daneel.harness.tools.builtin.files import Folder
from daneel.harness.tools.builtin.making import at_least, built_in
from daneel.harness.tools.registry import Effect, Tool


@dataclass(frozen=True)
class _Settings:
    place: Workspace
    network: bool
    readable: tuple[Path, ...]
    limits: CommandLimits
    max_output_chars: int
    find: Callable[[], Sandbox]

    @property
    def is_confined(self) -> bool:
        return self.find is not Unconfined and not self.network

    def sandbox(self) -> Sandbox:
        """Raises ToolFailure when there is none: no command runs then."""
        try:
            return self.find().with_readable(self.readable)
        except NoSandbox as error:
            raise ToolFailure(f"commands cannot be run here: there is no sandbox ({error}). Go on without commands") from error

    def options(self) -> dict[str, Any]:
        """What of them makes the tool behave as it does."""
        said = {"network": self.network, "readable": len(self.readable), "confined": self.is_confined}
        return {**asdict(self.limits), **said, "max_output_chars": self.max_output_chars}


def run_command(
    workspace: Folder = ".",
    *,
    network: bool = False,
    readable: Sequence[str | os.PathLike[str]] = (),
    timeout_s: float = 60.0,
    max_output_chars: int = 6000,
    limits: CommandLimits | None = None,
    sandbox: Callable[[], Sandbox] = find_sandbox,
) -> Tool:
    """A tool that runs commands. `readable`: what they may read besides the workspace and the system's programs.

    Without a sandbox on this machine it refuses; `without_sandbox()` is what `--no-sandbox` does about it.
    """
    at_least("run_command", timeout_s=timeout_s, max_output_chars=max_output_chars)
    kept = replace(limits or CommandLimits(), timeout_s=timeout_s)
    paths = readable_paths(tuple(readable))
    return _tool(_Settings(Workspace.at(workspace), network, paths, kept, max_output_chars, sandbox))


def without_sandbox(harness: Harness) -> Harness:
    """The harness with its commands unconfined, because a person says so: they may do what this program may."""
    tools = [unconfined() if (unconfined := safety_of(tool).unconfined) else tool for tool in harness.tools]
    return harness.with_changes(tools=tools)


def _tool(settings: _Settings) -> Tool:
    def run_command(command: str) -> str:
        """Run a shell command in the workspace and read its output.

        Args:
            command: The command, such as: ls -l
        """
        if not command.strip() or "\0" in command:
            raise ToolFailure("the command is empty; write a shell command, such as: ls -l")
        try:
            result = settings.sandbox().run(command, settings.place.root, settings.limits, network=settings.network)
        except NoSandbox as error:
            raise ToolFailure(f"commands cannot be run here: {error}. Go on without commands") from error
        except OSError as error:
            raise ToolFailure(f"the command could not be started ({error.strerror}); make it shorter") from error
        return _told(result, settings)

    def preview(arguments: Mapping[str, Any]) -> None:
        settings.sandbox()  # where no command can be run, nobody need be asked

    effects: list[Effect] = ["exec", "network"] if settings.network else ["exec"]
    safety = ToolSafety(
        workspace=settings.place.root,
        preview=preview,
        confined=settings.is_confined,
        fences=True,
        unconfined=None if settings.find is Unconfined else lambda: _tool(replace(settings, find=Unconfined)),
    )
    return built_in(run_command, effects=effects, safety=safety, options=settings.options(), repeats=True)


def _told(result: CommandResult, settings: _Settings) -> str:
    """How it ended, what it wrote, and what to do when that was not good."""
    limits = settings.limits
    if result.exit_code == CANNOT_LIMIT and "ulimit" in result.output:
        raise ToolFailure("commands cannot be run here: their limits could not be set. Go on without commands")
    said = {
        None: f"The command ended with exit code {result.exit_code}.",
        "time": f"The command was stopped after {limits.timeout_s:g} seconds. Use one that ends sooner.",
        "memory": f"The command was stopped: it used more than {limits.max_memory_bytes >> 20} MB of memory.",
        "processes": f"The command was stopped: it started more than {limits.max_processes} processes.",
    }[result.stopped]
    output = result.output.strip("\n")
    if not output.strip():
        return f"{said} It wrote nothing."
    return f"{said} It wrote:\n{fence(output, 'run_command', max_chars=settings.max_output_chars)}"
