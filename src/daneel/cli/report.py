"""`daneel report`: measurements and runs as one HTML file, as Markdown for a pull request, or as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from daneel.bench.diagnose.reading import RunReader
from daneel.bench.report.data import Report, gather, plain
from daneel.bench.report.markdown import markdown
from daneel.bench.report.page import page
from daneel.cli.connection import clean_stdout
from daneel.errors import UserError

MAX_TRANSCRIPTS = 60


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("report")
    def _report(
        names: list[str] = typer.Argument(..., metavar="RUN…", help="Ids of measurements (m_…) or runs, or how they start."),
        html: Path | None = typer.Option(
            None, "--html", metavar="FILE", help="Write one self-contained HTML file; one that is there is replaced."
        ),
        as_markdown: bool = typer.Option(False, "--markdown", help="Markdown on standard output, for a pull request."),
        as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output, without transcripts."),
        transcripts: int = typer.Option(
            MAX_TRANSCRIPTS, "--transcripts", help="So many runs in full, shared out over the versions; the others are counted."
        ),
    ) -> None:
        """Report on measurements: E over versions, what changed, turns lost, tools, findings, transcripts.

        The versions are shown in the order of their time. Numbers that must not stand beside each other (another goal, or
        another harness and another model at once) are refused, with a diff. The HTML file needs nothing but itself and runs
        no script. Exit code 2 when there is nothing to report, or the file cannot be written.
        """
        if (html is not None) + as_markdown + as_json != 1:
            raise UserError("say what to write: --html FILE, --markdown or --json (one of the three)")
        if transcripts < 0:
            raise UserError(f"--transcripts must be 0 or more, not {transcripts}")
        with clean_stdout(as_json or as_markdown) as stdout:
            report = _gathered(names, transcripts)
            if html is not None:
                _write(html, page(report))
                print(f"{html}: {len(report.versions)} versions, {len(report.runs)} transcripts", file=sys.stderr)
            elif as_markdown:
                print(markdown(report), file=stdout, end="", flush=True)
            else:
                print(json.dumps(plain(report)), file=stdout, flush=True)


def _gathered(names: list[str], max_transcripts: int) -> Report:
    columns = (TextColumn("reading runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with RunReader() as reader:
        total = reader.count(reader.select(names))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        return gather(names, max_transcripts=max_transcripts, on_run=lambda: progress.advance(task))


def _write(path: Path, text: str) -> None:
    """The whole file or none: it is written beside its place first. Raises UserError."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
