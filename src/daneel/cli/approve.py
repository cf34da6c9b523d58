"""Approvals at the terminal: what a call would do, as a diff where it changes files, and a question that only y answers yes.

What is shown comes from a model, and from pages and files that it has read: control characters are shown as escapes, so that a
text can neither paint over the question nor hide what it is about.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from daneel.cli.typed import typed_line
from daneel.harness.definition import Harness
from daneel.harness.safety.approvals import ApprovalRequest
from daneel.harness.safety.confinement import NoSandbox as NoSandboxHere
from daneel.harness.safety.sandbox import find_sandbox
from daneel.harness.safety.targets import safety_of
from daneel.harness.safety.untrusted import visible

MAX_SHOWN_CHARS = 20_000
MAX_LINE_CHARS = 500
NoSandbox = Annotated[
    bool,
    typer.Option("--no-sandbox", help="Let run_command run without a sandbox: with all that you may read, write and reach."),
]
_YES = ("y", "yes")
_ALWAYS = ("a", "always")


def warn_without_sandbox(harness: Harness) -> None:
    """Say at the start, on standard error, that commands will be refused here."""
    confined = [tool.name for tool in harness.tools if safety_of(tool).unconfined is not None]
    if confined:
        try:
            find_sandbox()
        except NoSandboxHere as error:
            hint = "--no-sandbox runs commands all the same, with all that you may do"
            print(f"daneel: {', '.join(confined)} will refuse: {error}; {hint}", file=sys.stderr)


def terminal_approver(console: Console) -> TerminalApprover | None:
    """Someone to ask, if a person is there: standard input is a terminal and so is what they look at. Else None."""
    try:
        attended = sys.stdin.isatty() and console.is_terminal
    except ValueError:  # standard input is closed
        return None
    return TerminalApprover(console) if attended else None


class TerminalApprover:
    """Asks at the terminal. `read` gives the next line that a person types; EOFError is no. By default: standard input."""

    def __init__(self, console: Console, read: Callable[[], str] | None = None) -> None:
        self._console = console
        self._read = read or typed_line
        self._forgets = read is None
        self._always: set[str] = set()
        self._lock = threading.Lock()

    def ask(self, request: ApprovalRequest) -> bool:
        """Show the request and wait for an answer."""
        with self._lock:
            if request.can_repeat and request.tool in self._always:
                return True
            self._show(request)
            if self._forgets:
                _forget_what_was_typed()
            return self._answer(request)

    def _show(self, request: ApprovalRequest) -> None:
        print_line = self._console.print
        print_line()
        print_line(Text(f"{visible(request.tool)} needs your approval: {visible(request.reason)}", style="bold yellow"))
        if request.effects:
            print_line(Text("  " + "; ".join(visible(effect) for effect in request.effects), style="dim"))
        if request.diff is not None:
            for line in request.diff.splitlines():
                print_line(Text("  " + _bounded(visible(line), MAX_LINE_CHARS), style=_style(line)))
        else:
            for name, value in _arguments(request.arguments):
                print_line(Text(f"  {visible(name)}: {_bounded(visible(value), MAX_SHOWN_CHARS)}"))

    def _answer(self, request: ApprovalRequest) -> bool:
        always = ", a for all calls of this tool in this run" if request.can_repeat else ""
        while True:
            self._console.print(Text(f"Allow it? y for yes, n for no{always}: ", style="bold"), end="")
            try:
                said = self._read().strip().lower()
            except EOFError:
                self._console.print(Text("no"))
                return False
            if said in _ALWAYS and request.can_repeat:
                self._always.add(request.tool)
                return True
            if said in _YES:
                return True
            if said in ("n", "no"):
                return False
            self._console.print(Text("Type y or n."))


def _forget_what_was_typed() -> None:
    """What was typed ahead of a question answers nothing."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _arguments(text: str) -> list[tuple[str, str]]:
    """Arguments by name; text as it is written, so that a command can be read as one."""
    try:
        arguments = json.loads(text)
    except ValueError:
        return [("arguments", text)]
    if not isinstance(arguments, dict):
        return [("arguments", text)]
    pairs = [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) for name, value in arguments.items()
    ]
    return [(name, value.replace("\n", "\n    ")) for name, value in pairs]


def _bounded(text: str, max_chars: int) -> str:
    """Nothing is out of sight: long runs of spaces and empty lines are told, not drawn, and what is cut is counted."""
    text = re.sub(r" {16,}", lambda gap: f" [{len(gap[0])} spaces] ", text)
    text = re.sub(r"(?:\n\s*){5,}", lambda gap: f"\n    [{gap[0].count(chr(10))} line ends]\n    ", text)
    return text if len(text) <= max_chars else f"{text[:max_chars]} [… {len(text) - max_chars} more characters]"


def _style(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
