"""`daneel lint`: what is wrong with a harness file's tools as a model is told of them, without any trial."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import msgspec
import typer
from rich.text import Text

from daneel.bench.finding import Finding
from daneel.bench.lint.checks import lint
from daneel.cli import findings_view as view
from daneel.cli.connection import clean_stdout
from daneel.cli.run_view import printable
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, ServedModel
from daneel.harness.files import load


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("lint")
    def _lint(
        file: Path = typer.Argument(..., help="A harness file."),
        harness: list[str] = typer.Option([], help="Only these harnesses of the file (repeatable)."),
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
        """Look at the names, descriptions and schemas of a harness file's tools: empty, contradicting, too near, too long.

        No model is needed, and no trial. Exit code 0 when nothing is found, 1 when something is, 2 when the file cannot be
        used.
        """
        with clean_stdout(as_json) as stdout, ExitStack() as stack:
            held = load(file)
            harnesses = {name: held.harness(name) for name in dict.fromkeys(harness or held.harnesses)}
            door = Door(key, key_file, ca_cert, insecure_http)
            counter = view.token_counter(stack, server=server, serve=serve, model=model, door=door)
            found = {name: lint(name, each.declarations(), counter=counter) for name, each in harnesses.items()}
            if as_json:
                findings = [view.finding_object(finding) for each in found.values() for finding in each]
                ok = not findings
                said = {"file": str(file), "harnesses": list(found), "findings": findings, "tokens": counter.how, "ok": ok}
                print(msgspec.json.encode(said).decode(), file=stdout, flush=True)
            else:
                _print(found, counter.how)
        raise typer.Exit(1 if any(found.values()) else 0)


def _print(found: dict[str, list[Finding]], tokens: str) -> None:
    out = view.console()
    for name, findings in found.items():
        said = f"{len(findings)} finding{'' if len(findings) == 1 else 's'}" if findings else "nothing found"
        out.print(Text(printable(f"{name}: {said}"), style="bold"))
        for number, finding in enumerate(findings, start=1):
            view.print_finding(out, number, finding, with_trials=False)
    out.print(Text(f"Tokens: {tokens}.", style="dim"))
