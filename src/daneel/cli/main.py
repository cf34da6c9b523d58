"""`daneel`: one command, a file per command group. Errors a person can put right end in one sentence and exit code 2."""

from __future__ import annotations

import errno
import os
import sys
from io import TextIOWrapper

import typer

from daneel.cli.lazy import lazy_group
from daneel.errors import UserError

_CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG})

COMMANDS = (
    "serve",
    "models",
    "run",
    "chat",
    "check",
    "lint",
    "mcp",
    "doctor",
    "measure",
    "compare",
    "gate",
    "diagnose",
    "tune",
    "report",
    "resume",
    "transcripts",
    "parse",
    "render",
    "init",
)
"""Each in a module of `cli/` that has its name; they are shown in this order."""

app = typer.Typer(
    cls=lazy_group({name: f"daneel.cli.{name}" for name in COMMANDS}),
    name="daneel",
    help="Serve an open model honestly, run agents on it, and measure which harness is better.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # a tenth of the time that a quick command takes

        print(f"daneel {version('daneel')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Serve an open model honestly, run agents on it, and measure which harness is better."""


def main() -> None:
    """Entry point of the `daneel` script."""
    _ready_streams()
    try:
        app()
    except UserError as error:
        print(f"daneel: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("daneel: interrupted", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE or error.filename is not None:
            raise
        # what is left in the buffer cannot be written at exit either, and Python would say so in words of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"daneel: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(2)


def _ready_streams() -> None:
    """The standard streams, such that nothing we print can fail for its characters, and all three exist.

    A character that the terminal's encoding lacks is shown as its number. A stream that was closed (`2>&-`) becomes
    /dev/null: not only would printing fail, the next file opened would take its number, and receive what others print.
    """
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", errors="backslashreplace"))
        elif number and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
