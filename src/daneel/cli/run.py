"""`daneel run`: a harness of a file on a prompt or a goal, against any server of the dialect."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from daneel.bench.workspace import WorkFolder
from daneel.cli.approve import NoSandbox, terminal_approver, warn_without_sandbox
from daneel.cli.connection import INTERRUPTED, clean_stdout, connect, open_transcripts
from daneel.cli.run_view import RunView
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, Serve, ServedModel, Servers
from daneel.cli.signals import TERMINATED, ends_on_sigterm
from daneel.cli.then import FAILED as THEN_FAILED
from daneel.cli.then import Then, ThenFailed, hand_over
from daneel.cli.values import given
from daneel.errors import UserError
from daneel.harness.definition import Goal, Harness
from daneel.harness.files import HarnessFile, load
from daneel.harness.loop import run
from daneel.harness.raised import described, is_interrupt
from daneel.harness.run_lock import LockHeld, lock_name, run_lock
from daneel.harness.run_record import Run
from daneel.harness.tools.builtin.command import without_sandbox

LOCKED = 75
"""Exit code when another run holds the lock: EX_TEMPFAIL, try again later."""


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("run")
    def _run(
        file: Path = typer.Argument(..., help="A harness file."),
        prompt: str | None = typer.Argument(None, help="What the model is asked; or give --goal."),
        goal: str | None = typer.Option(None, help="A goal of the file: its prompt is asked, its check judges the run."),
        harness: str | None = typer.Option(None, help="Which harness of the file; by default its first."),
        server: Servers = None,
        serve: Serve = None,
        model: ServedModel = None,
        key: Keys = None,
        key_file: KeyFiles = None,
        ca_cert: CaCert = None,
        insecure_http: InsecureHttp = False,
        no_stream: bool = typer.Option(False, "--no-stream", help="Ask for whole replies."),
        keep_bytes: bool = typer.Option(False, "--keep-bytes", help="Keep what the server sends, byte for byte, as well."),
        as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output, and nothing else there."),
        temperature: float | None = typer.Option(None, help="Instead of the harness's."),
        seed: int | None = typer.Option(None, help="Sampling seed."),
        max_turns: int | None = typer.Option(None, help="Instead of the harness's."),
        first_tool_choice: str | None = typer.Option(None, help="First turn only: auto, none, required or a tool's name."),
        then: str | None = typer.Option(None, metavar="COMMAND", help="Give it the answer on standard input. No shell."),
        or_else: str | None = typer.Option(None, metavar="COMMAND", help="The same with the reason, when there is no answer."),
        then_timeout: float = typer.Option(600.0, help="Seconds that either command may take."),
        no_overlap: bool = typer.Option(False, "--no-overlap", help="Not while this file runs on this goal or prompt."),
        lock: str | None = typer.Option(None, metavar="NAME", help="Not while any run with this lock is on."),
        no_sandbox: NoSandbox = False,
    ) -> None:
        """Run a harness on a prompt or a goal.

        Exit codes: 0 the model answered. 1 it did not. 2 bad input, or no server. 3 it answered, but the --then command failed.
        75 another run holds the lock. 130 Ctrl-C. 143 told to end (SIGTERM).
        """
        commands = Then.parse("--then", then, then_timeout), Then.parse("--or-else", or_else, then_timeout)
        with clean_stdout(as_json) as out, ExitStack() as stack:
            sigterm = stack.enter_context(ends_on_sigterm())
            held = load(file)
            options = given(temperature=temperature, max_turns=max_turns, first_tool_choice=first_tool_choice)
            chosen = _harness_of(held, harness, options, no_sandbox=no_sandbox)
            warn_without_sandbox(chosen)
            wanted = _goal_of(held, prompt, goal)
            _take_lock(stack, lock, lock_name(file, f"goal {goal}" if goal else str(prompt)) if no_overlap else None)
            if harness is None and len(held.harnesses) > 1:
                print(f"harness {chosen.name} of {', '.join(held.harnesses)}; --harness takes another", file=sys.stderr)
            door = Door(key, key_file, ca_cert, insecure_http)
            client, url = connect(stack, server=server, serve=serve, model=model, door=door)
            view = RunView(terminal(as_json), streams=not no_stream)
            labels = {"goal": wanted.name if wanted else None, "file": str(file), "server": url, "model": client.model}
            # what `daneel resume` needs, from whatever folder it is called
            places = {"file": str(file.resolve()), "folder": str(Path.cwd()), "serve": _found(serve)}
            kept = {**labels, **places, "options": options}
            transcript = open_transcripts(stack, kept, bytes_of=client if keep_bytes else None)
            source = file.resolve()
            with _workspace_for(wanted) as workspace:
                if workspace is not None:  # loaded again: tools that are made for "." work where they are made
                    chosen = _harness_of(load(source), harness, options, no_sandbox=no_sandbox)
                finished = run(
                    chosen,
                    wanted.prompt if wanted else str(prompt),
                    client=client,
                    observer=view,
                    approver=terminal_approver(view.console),
                    transcript=transcript,
                    seed=seed,
                    stream=not no_stream,
                )
                finished.workspace = workspace
                achieved, verdict = judge(wanted, finished)
            view.finish(finished, verdict=verdict)
            if as_json:
                judged = {"goal": wanted.name, "achieved": achieved, "verdict": verdict} if wanted else {}
                print(json.dumps({**finished.to_dict(), **labels, **judged}, default=str), file=out, flush=True)
            code = exit_code(finished, terminated=sigterm.came)
            try:
                hand_over(finished, achieved=achieved, then=commands[0], or_else=commands[1])
            except ThenFailed as error:
                print(f"daneel: {error}", file=sys.stderr)
                code = code or THEN_FAILED
        raise typer.Exit(code)


def _harness_of(held: HarnessFile, name: str | None, options: dict[str, Any], *, no_sandbox: bool) -> Harness:
    chosen = held.harness(name).with_changes(**options)
    return without_sandbox(chosen) if no_sandbox else chosen


@contextmanager
def _workspace_for(goal: Goal | None) -> Iterator[Path | None]:
    """A goal with a set-up is run in a fresh folder, as a trial is; it is gone afterwards."""
    if goal is None or goal.setup is None:
        yield None
        return
    with WorkFolder() as folder, folder.filled_by(goal) as workspace:
        yield workspace


def _found(model: str | None) -> str | None:
    """A model for --serve, by its absolute path if it is a file."""
    return str(Path(model).resolve()) if model is not None and Path(model).exists() else model


def _take_lock(stack: ExitStack, *names: str | None) -> None:
    """Hold the locks of these names for as long as `stack`. Ends the command when another run holds one of them."""
    try:
        for name in names:
            if name is not None:
                stack.enter_context(run_lock(name))
    except LockHeld as error:
        print(f"daneel: {error}", file=sys.stderr)
        raise typer.Exit(LOCKED) from None


def _goal_of(held: HarnessFile, prompt: str | None, goal: str | None) -> Goal | None:
    if (prompt is None) == (goal is None):
        goals = f" (the file has: {', '.join(held.goals)})" if held.goals else ""
        raise UserError(f"give either a prompt or --goal NAME{goals}")
    return held.goal(goal) if goal is not None else None


def judge(goal: Goal | None, finished: Run) -> tuple[bool | None, str | None]:
    """What the goal's check says of a run: True, False, or None when it could not be asked; and a sentence."""
    if goal is None:
        return None, None
    if finished.stop_reason in ("invalid", "cancelled"):
        return None, f"goal {goal.name}: not judged, the run was {finished.stop_reason}"
    try:
        achieved = goal(finished)
    except BaseException as error:  # a check is a person's own code
        if is_interrupt(error):
            raise
        return None, f"goal {goal.name}: not judged, its check raised {described(error)}"
    return achieved, f"goal {goal.name}: {'achieved' if achieved else 'not achieved'}"


def terminal(as_json: bool) -> Console:
    """Standard output; with --json, standard error if a person is there to see it."""
    return Console(stderr=as_json, quiet=as_json and not sys.stderr.isatty(), highlight=False)


def exit_code(finished: Run, *, terminated: bool) -> int:
    if finished.stop_reason == "cancelled":
        return TERMINATED if terminated else INTERRUPTED
    return 0 if finished.stop_reason == "answered" else 1
