"""`daneel`: one command, a file per command group. Errors a person can put right end in one sentence and exit code 2."""

from __future__ import annotations

import sys
from importlib.metadata import version

import typer

from daneel.cli import init, measure, models, run, serve, transcripts
from daneel.errors import UserError

app = typer.Typer(
    name="daneel",
    help="Serve an open model honestly, run agents on it, and measure which harness is better.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"daneel {version('daneel')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Serve an open model honestly, run agents on it, and measure which harness is better."""


for _group in (serve, models, run, measure, transcripts, init):
    _group.register(app)


def main() -> None:
    """Entry point of the `daneel` script."""
    try:
        app()
    except UserError as error:
        print(f"daneel: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("daneel: interrupted", file=sys.stderr)
        sys.exit(130)
