"""`daneel chat`: a conversation with a harness: a person types, the agent works, and hears what is typed meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from daneel.cli.approve import NoSandbox, TerminalApprover, warn_without_sandbox
from daneel.cli.connection import INTERRUPTED, connect, open_transcripts
from daneel.cli.run_view import RunView
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, Serve, ServedModel, Servers
from daneel.cli.signals import TERMINATED, ends_on_sigterm
from daneel.cli.typed import HELP, Typed
from daneel.cli.values import given
from daneel.harness.definition import Harness
from daneel.harness.files import load
from daneel.harness.loop import run
from daneel.harness.run_record import Run
from daneel.harness.tools.builtin.command import without_sandbox


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("chat")
    def _chat(
        file: Path = typer.Argument(..., help="A harness file."),
        harness: str | None = typer.Option(None, help="Which harness of the file; by default its first."),
        server: Servers = None,
        serve: Serve = None,
        model: ServedModel = None,
        key: Keys = None,
        key_file: KeyFiles = None,
        ca_cert: CaCert = None,
        insecure_http: InsecureHttp = False,
        no_stream: bool = typer.Option(False, "--no-stream", help="Ask for whole replies."),
        temperature: float | None = typer.Option(None, help="Instead of the harness's."),
        seed: int | None = typer.Option(None, help="Sampling seed."),
        max_turns: int | None = typer.Option(None, help="Per question, instead of the harness's."),
        no_sandbox: NoSandbox = False,
    ) -> None:
        """Talk with a harness. What you type while it works is heard at its next turn.

        Ctrl-C ends the turn that is on; once more, or /quit, or Ctrl-D leaves. From a pipe, each line is a question.

        Exit codes: 0 left. 1 a question from a pipe got no answer. 2 bad input, or no server. 130 Ctrl-C. 143 SIGTERM.
        """
        with ExitStack() as stack:
            sigterm = stack.enter_context(ends_on_sigterm())
            held = load(file)
            options = given(temperature=temperature, max_turns=max_turns)
            chosen = held.harness(harness).with_changes(**options)
            chosen = without_sandbox(chosen) if no_sandbox else chosen
            warn_without_sandbox(chosen)
            door = Door(key, key_file, ca_cert, insecure_http)
            client, url = connect(stack, server=server, serve=serve, model=model, door=door)
            places = {"file": str(file.resolve()), "folder": str(Path.cwd())}
            labels = {**places, "options": options, "server": url, "model": client.model, "chat": True}
            view = ChatView(Console(highlight=False), chosen, streams=not no_stream)
            typed = Typed(_input(), view, leaves_at_once=lambda: sigterm.came)
            if typed.attended:
                view.note(f"{chosen.name} with {client.model} at {url}. {HELP}.")
            typed.start()
            approver = TerminalApprover(view.console, typed.answer) if typed.attended else None

            def converse(prompt: str) -> Run:
                kept = open_transcripts(stack, labels)
                stream = not no_stream
                return run(
                    chosen,
                    prompt,
                    client=client,
                    inbox=typed,
                    observer=view,
                    approver=approver,
                    transcript=kept,
                    seed=seed,
                    stream=stream,
                )

            code = _talk(typed, converse)
            if sigterm.came:
                code = TERMINATED
        raise typer.Exit(code)


def _talk(typed: Typed, converse: Callable[[str], Run]) -> int:
    """The conversation from its first message to its end, and the exit code for it."""
    try:
        prompt = typed.first()
    except KeyboardInterrupt:
        return INTERRUPTED
    if prompt is None:
        return 0
    finished = converse(prompt)
    if finished.stop_reason == "cancelled" and not typed.over:
        return INTERRUPTED
    answered = finished.stop_reason == "answered" and not typed.unanswered
    return 0 if answered or typed.attended else 1


def _input() -> int:
    try:
        return sys.stdin.fileno()
    except (OSError, ValueError):  # a stand-in without a file
        return 0


class ChatView(RunView):
    """The view of a run, which also speaks for the inbox. See `Voice`."""

    def __init__(self, console: Console, harness: Harness, *, streams: bool) -> None:
        super().__init__(console, streams=streams)
        self._tools = harness.tools

    def prompt(self) -> None:
        self._end_line()
        if sys.stdin.isatty() and self._console.is_terminal:
            self._console.print(Text("> ", style="bold"), end="")

    def note(self, text: str) -> None:
        self._line(f"({text})", "dim")

    def tools(self) -> None:
        for tool in self._tools:
            self._line(f"{tool.name}: {tool.description}", "dim")
        if not self._tools:
            self.note("this harness has no tools")
