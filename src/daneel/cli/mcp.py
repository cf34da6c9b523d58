"""`daneel mcp`: the harnesses of a file as an MCP server, so that any MCP client can give them tasks."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import typer

from daneel.cli.connection import connect, open_transcripts
from daneel.cli.server_options import CaCert, Door, InsecureHttp, KeyFiles, Keys, Serve, ServedModel, Servers
from daneel.errors import UserError
from daneel.harness.files import load
from daneel.harness.mcp.server import HarnessServer


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("mcp")
    def _mcp(
        file: Path = typer.Argument(..., help="A harness file."),
        harness: list[str] = typer.Option([], help="Only these harnesses of the file (repeatable)."),
        description: str | None = typer.Option(None, help="What the tool is for, in a client's words; for one harness."),
        server: Servers = None,
        serve: Serve = None,
        model: ServedModel = None,
        key: Keys = None,
        key_file: KeyFiles = None,
        ca_cert: CaCert = None,
        insecure_http: InsecureHttp = False,
    ) -> None:
        """Offer the harnesses of FILE as tools over MCP, on standard input and output.

        Each takes a prompt and answers it with a run. An MCP client starts it as: daneel mcp FILE
        """
        with ExitStack() as stack:
            held = load(file)
            harnesses = {name: held.harness(name) for name in dict.fromkeys(harness or held.harnesses)}
            if description is not None and len(harnesses) > 1:
                raise UserError("--description is for one harness; say which with --harness")
            client, url = connect(
                stack, server=server, serve=serve, model=model, door=Door(key, key_file, ca_cert, insecure_http)
            )
            served = HarnessServer(
                harnesses=harnesses,
                client=client,
                transcript=open_transcripts(stack, {"file": str(file.resolve()), "server": url, "model": client.model}),
                descriptions=dict.fromkeys(harnesses, description) if description is not None else {},
            )
            if sys.stdin.isatty():
                print("daneel: speaking MCP on standard input and output; Ctrl-C ends it", file=sys.stderr)
            served.serve_stdio()
