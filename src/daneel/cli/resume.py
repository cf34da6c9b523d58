"""`daneel resume`: go on with a run that was cut short."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import Any

import typer

from daneel.cli.approve import NoSandbox, terminal_approver
from daneel.cli.connection import clean_stdout, connect
from daneel.cli.run import exit_code, judge, terminal
from daneel.cli.run_view import RunView, printable
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, Serve, Servers
from daneel.cli.signals import ends_on_sigterm
from daneel.errors import UserError
from daneel.harness.definition import Goal, Harness
from daneel.harness.files import HarnessFile, load
from daneel.harness.past import Decide
from daneel.harness.recovery import Attempt
from daneel.harness.resume import changes_something, check_open, check_same, unless_it_changes_something
from daneel.harness.resume import resume as go_on
from daneel.harness.tools.builtin.command import without_sandbox
from daneel.harness.transcript import RunRow, TranscriptStore


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("resume")
    def _resume(
        run_id: str = typer.Argument("last", metavar="[ID]", help="A run's id, or how it starts; by default the newest."),
        rerun: bool = typer.Option(False, "--rerun", help="Make a call again whose outcome is not known, without asking."),
        skip: bool = typer.Option(False, "--skip", help="Do not make it again, without asking: the model is told."),
        anyway: bool = typer.Option(False, "--anyway", help="Also when the harness is not the one that began the run."),
        server: Servers = None,
        serve: Serve = None,
        model: str | None = typer.Option(None, help="Another of the server's models than before."),
        key: Keys = None,
        key_file: KeyFiles = None,
        ca_cert: CaCert = None,
        insecure_http: InsecureHttp = False,
        no_sandbox: NoSandbox = False,
        no_stream: bool = typer.Option(False, "--no-stream", help="Ask for whole replies."),
        as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output, and nothing else there."),
    ) -> None:
        """Go on with a run that was killed, cancelled or left by its server, under its own id.

        What is on record is not done again, and it goes on in the folder where it began. A tool that had begun, and whose
        result is not on record, may have had its effect: one that only reads runs again; of any other you are asked, and where
        there is no terminal the model is told that nobody knows. Exit codes as of `daneel run`.
        """
        if rerun and skip:
            raise UserError("--rerun and --skip exclude each other")
        with clean_stdout(as_json) as out, ExitStack() as stack:
            sigterm = stack.enter_context(ends_on_sigterm())
            store = stack.enter_context(TranscriptStore())
            row = store.find(run_id)
            check_open(row)
            with chdir(folder_of(row)):
                held = file_of(row)
                harness = harness_of(row, held)
            harness = without_sandbox(harness) if no_sandbox else harness
            if not anyway:
                check_same(row, harness)
            if not server and serve is None:
                serve = row.about.get("serve")
                server = [str(row.about["server"])] if not serve and row.about.get("server") else None
            door = Door(key, key_file, ca_cert, insecure_http)
            client, _ = connect(stack, server=server, serve=serve, model=model or _model(row, serve), door=door)
            view = RunView(terminal(as_json), streams=not no_stream)
            stack.enter_context(chdir(folder_of(row)))
            finished = go_on(
                store,
                row.id,
                harness,
                client=client,
                decide=_decide(rerun=rerun, skip=skip),
                anyway=anyway,
                observer=view,
                approver=terminal_approver(view.console),
                stream=False if no_stream else None,
            )
            goal = _goal_of(row, held)
            achieved, verdict = judge(goal, finished)
            view.finish(finished, verdict=verdict)
            if as_json:
                judged = {"goal": goal.name, "achieved": achieved, "verdict": verdict} if goal else {}
                print(json.dumps({**finished.to_dict(), **judged}, default=str), file=out, flush=True)
            code = exit_code(finished, terminated=sigterm.came)
        raise typer.Exit(code)


def file_of(row: RunRow, file: Path | None = None) -> HarnessFile:
    """The harness file of a run. Raises UserError when it is not on record."""
    if file is None and not row.about.get("file"):
        raise UserError(f"run {row.id} has no harness file on record: it was started from Python, so go on with it there")
    return load(file or Path(str(row.about["file"])))


def folder_of(row: RunRow) -> Path:
    """The folder that the run was begun in: paths that its tools take are seen from there. Raises UserError when it is gone."""
    folder = Path(str(row.about.get("folder") or Path.cwd()))
    if not folder.is_dir():
        raise UserError(f"run {row.id} was begun in {folder}, which is there no more")
    return folder


def harness_of(row: RunRow, held: HarnessFile) -> Harness:
    """The harness of a run, with the options that were given on the command line."""
    options: dict[str, Any] = row.about.get("options") or {}
    return held.harness(row.about.get("harness")).with_changes(**options)


def _goal_of(row: RunRow, held: HarnessFile) -> Goal | None:
    name = row.about.get("goal")
    return held.goals.get(str(name)) if name else None


def _model(row: RunRow, serve: str | None) -> str | None:
    """The model by name; a server of our own has only the one."""
    return None if serve else row.about.get("model")


def _decide(*, rerun: bool, skip: bool) -> Decide:
    if rerun:
        return lambda _: True
    if skip:
        return lambda _: False
    return _asked if sys.stdin.isatty() and sys.stderr.isatty() else unless_it_changes_something


def _asked(attempt: Attempt) -> bool:
    if not changes_something(attempt):
        return True
    arguments = attempt.bound.arguments if attempt.bound else {}
    call = printable(f"{attempt.name}({json.dumps(arguments, ensure_ascii=False)})")
    print(f"{call}\nhad begun when the run was cut short. It may have had its effect, or not.", file=sys.stderr)
    return typer.confirm("Make it again? (No: the model is told that nobody knows.)", default=False, err=True)
