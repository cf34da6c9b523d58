"""What is done with a run's answer: `--then COMMAND` gets it on standard input, `--or-else COMMAND` gets the reason for none.

The command is run without a shell: what a model wrote goes to its standard input and never onto a command line.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass

from daneel.errors import UserError
from daneel.harness.run_record import Run

FAILED = 3
"""Exit code when the run went well and the command did not."""


class ThenFailed(Exception):
    """The command could not be run, failed, or took too long; the message says which."""


@dataclass(frozen=True)
class Then:
    """A command to be run after a run. Made by `parse`, which has seen that there is such a program."""

    option: str
    words: tuple[str, ...]
    timeout_s: float

    @classmethod
    def parse(cls, option: str, command: str | None, timeout_s: float) -> Then | None:
        """None for no command. Raises UserError, before anything is asked of a model, for one that cannot be run."""
        if command is None:
            return None
        if not timeout_s > 0:
            raise UserError(f"--then-timeout must be above 0 seconds, not {timeout_s:g}")
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UserError(f"{option}: {command!r} cannot be read: {error}") from error
        if not words:
            raise UserError(f"{option}: there is no command in {command!r}")
        if shutil.which(words[0]) is None:
            hint = "; for a shell's features write: sh -c '…'" if words[0] in _SHELL_WORDS or "=" in words[0] else ""
            raise UserError(f"{option}: there is no program {words[0]}{hint}")
        return cls(option, tuple(words), timeout_s)

    def run(self, text: str, variables: dict[str, str]) -> None:
        """Give it `text`. What it prints goes where ours does. Raises ThenFailed."""
        sys.stdout.flush()
        try:
            done = subprocess.run(
                self.words,
                input=text.encode("utf-8", "replace"),
                env={**os.environ, **variables},
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ThenFailed(f"{self.option}: {self.words[0]} was not done within {self.timeout_s:g} s") from None
        except (OSError, ValueError) as error:
            raise ThenFailed(f"{self.option}: {self.words[0]} cannot be run: {error}") from error
        if done.returncode:
            how = f"exit code {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
            raise ThenFailed(f"{self.option}: {self.words[0]} failed with {how}")


_SHELL_WORDS = frozenset({"cd", "export", "source", ".", "set", "if", "for", "while", "{", "("})


def hand_over(finished: Run, *, achieved: bool | None, then: Then | None, or_else: Then | None) -> None:
    """Run the command that fits how the run ended. A run that was cancelled is nobody's business. Raises ThenFailed."""
    if finished.stop_reason == "cancelled":
        return
    variables = {
        "DANEEL_RUN_ID": finished.id,
        "DANEEL_STOP_REASON": finished.stop_reason,
        "DANEEL_ACHIEVED": "" if achieved is None else str(achieved).lower(),
    }
    if finished.answer is not None:
        if then is not None:
            then.run(finished.answer + "\n", variables)
    elif or_else is not None:
        or_else.run(f"{finished.stop_reason}: {finished.detail or 'no answer'}\n", variables)
