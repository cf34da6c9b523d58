"""`daneel diagnose`: what the transcripts say is wrong with a harness, with evidence, and what it takes to test a change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from daneel.bench.diagnose.diagnosis import Diagnosis, diagnose
from daneel.bench.diagnose.reading import RunReader, Selection
from daneel.bench.diagnose.view import RunView
from daneel.cli import findings_view as view
from daneel.cli.connection import clean_stdout
from daneel.cli.run_view import printable
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, ServedModel
from daneel.errors import UserError


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("diagnose")
    def _diagnose(
        names: list[str] = typer.Argument(
            None, metavar="[RUN]…", help="Ids of measurements (m_…) or runs, or how they start. See also --last and --all."
        ),
        last: bool = typer.Option(False, "--last", help="The newest measurement; without any, the newest run."),
        all_runs: bool = typer.Option(False, "--all", help="Everything that is stored."),
        harness: list[str] = typer.Option([], help="Only these harnesses (repeatable)."),
        held_out: bool = typer.Option(
            False, "--held-out", help="Trials on held-out goals, too: they can then no longer confirm what is found."
        ),
        server: list[str] = typer.Option(
            None, "--server", metavar="URL", help="Count tokens with this server's tokenizer; without it, by characters."
        ),
        serve: str | None = typer.Option(None, metavar="MODEL", help="The same, with a server started for it."),
        model: ServedModel = None,
        key: Keys = None,
        key_file: KeyFiles = None,
        ca_cert: CaCert = None,
        insecure_http: InsecureHttp = False,
        as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output, and nothing else there."),
    ) -> None:
        """Find out from stored runs what is wrong with a harness: tools never called, overlaps, doubts, needless results.

        Each finding comes with the turns to look at, the gain in E that may be expected, and the trials it takes to test it.
        What rests on chance is tested and corrected for the number of tests: no finding is no proof that all is well. No
        model judges anything. Exit code 0 whatever is found, 2 when there is nothing to read.
        """
        with clean_stdout(as_json) as stdout, ExitStack() as stack:
            door = Door(key, key_file, ca_cert, insecure_http)
            counter = view.token_counter(stack, server=server, serve=serve, model=model, door=door)
            reader = stack.enter_context(RunReader())
            selection = _selection(reader, names or [], last=last, all_runs=all_runs)
            diagnosis = diagnose(_wanted(_with_progress(reader, selection), harness), counter=counter, held_out=held_out)
            if not diagnosis.harnesses:
                raise UserError(
                    f"no run of {', '.join(harness)} among these" if harness else "these trials left no transcripts"
                )
            if as_json:
                print(msgspec.json.encode(_as_object(diagnosis)).decode(), file=stdout, flush=True)
            else:
                _print(view.console(), diagnosis)


def _selection(reader: RunReader, names: list[str], *, last: bool, all_runs: bool) -> Selection:
    if bool(names) + last + all_runs != 1:
        raise UserError("name measurements or runs, or give --last or --all (one of the three)")
    if all_runs:
        return Selection(all=True)
    return reader.newest() if last else reader.select(names)


def _wanted(runs: Iterator[RunView], harnesses: list[str]) -> Iterator[RunView]:
    return (run for run in runs if not harnesses or run.harness in harnesses)


def _with_progress(reader: RunReader, selection: Selection) -> Iterator[RunView]:
    columns = (TextColumn("reading runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=reader.count(selection))
        for number, run in enumerate(reader.read(selection), start=1):
            yield run
            if number % 20 == 0:
                progress.update(task, completed=number)


def _print(out: Console, diagnosis: Diagnosis) -> None:
    for report in diagnosis.harnesses:
        same_name = sum(other.harness == report.harness for other in diagnosis.harnesses) > 1
        name = f"{report.harness} ({report.harness_hash})" if same_name else report.harness
        scored = f", {report.num_scored} scored" if report.num_scored != report.num_runs else ""
        known = f", E {report.effectiveness:.2f}" if report.effectiveness is not None else ""
        out.print(Text(printable(f"{name}: {report.num_runs} runs{scored}{known}, {len(report.tools)} tools"), style="bold"))
        if report.num_left_out:
            out.print(Text(f"{report.num_left_out} more were left out: invalid, cancelled, or on held-out goals.", style="dim"))
        if report.unreadable_events:
            out.print(Text(f"{report.unreadable_events} events could not be read and are left out.", style="yellow"))
        out.print()
        found = [
            finding
            for finding in diagnosis.findings
            if finding.harness == report.harness and finding.data.get("harness_hash") == report.harness_hash
        ]
        for number, finding in enumerate(found, start=1):
            view.print_finding(out, number, finding, with_trials=True)
        if not found:
            out.print("Nothing was found. With more trials, smaller faults would show.\n")
    out.print(Text(f"Tokens: {diagnosis.tokens}. Gains are estimates; `daneel compare` tests a change.", style="dim"))


def _as_object(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "harnesses": msgspec.to_builtins(diagnosis.harnesses),
        "findings": [view.finding_object(finding) for finding in diagnosis.findings],
        "tokens": diagnosis.tokens,
    }
