"""The options that say which servers a command talks to, and how: shared by every command that does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from daneel.harness.credentials import key_from_file

DEFAULT_SERVER = "http://127.0.0.1:8080"
KEY_VARIABLES = ["DANEEL_API_KEY", "OPENAI_API_KEY"]

Servers = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        metavar="URL",
        show_default=False,
        help=f"Base URL of a server; given again: one to ask when the others fail.  [default: {DEFAULT_SERVER}]",
    ),
]
Serve = Annotated[str | None, typer.Option("--serve", help="Start and stop a daneel server with this model instead.")]
ServedModel = Annotated[str | None, typer.Option("--model", help="Which of the server's models.")]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="KEY",
        envvar=KEY_VARIABLES,
        show_default=False,
        help="The server's API key; given again: one for each --server. Others on this machine can see it here.",
    ),
]
KeyFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        envvar="DANEEL_API_KEY_FILE",
        show_default=False,
        help="A file whose only line is the key, in place of --key.",
    ),
]
CaCert = Annotated[
    Path | None,
    typer.Option(
        "--ca-cert",
        metavar="FILE",
        envvar="DANEEL_CA_CERT",
        show_default=False,
        help="A PEM file with certificates to trust besides the usual authorities': for a server with its own.",
    ),
]
InsecureHttp = Annotated[
    bool,
    typer.Option(
        "--insecure-http",
        envvar="DANEEL_INSECURE_HTTP",
        show_default=False,
        help="Allow plain HTTP to another machine: prompts, results and the key can be read on the way.",
    ),
]


@dataclass(frozen=True)
class Door:
    """How a server is entered: keys as given or from files (which win), certificates, and whether it may be unencrypted."""

    keys: list[str] | None = None
    key_files: list[Path] | None = None
    ca_cert: Path | None = None
    insecure_http: bool = False

    def read_keys(self) -> list[str]:
        """Raises UserError when a key file cannot be read."""
        return [key_from_file(path) for path in self.key_files or []] or list(self.keys or [])
