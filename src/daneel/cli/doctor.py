"""`daneel doctor`: examine a server, print what it does, and keep what runs can use."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from daneel.cli.run_view import printable
from daneel.cli.server_options import DEFAULT_SERVER, CaCert, Door, InsecureHttp, KeyFiles, Keys
from daneel.errors import UserError
from daneel.harness import server_profile
from daneel.harness.credentials import check_encrypted, ssl_context
from daneel.harness.doctor.examination import Examination, examine
from daneel.harness.doctor.exchange import Sender
from daneel.harness.doctor.lab import Finding
from daneel.harness.server_url import base_of

_WIDTH = 24


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("doctor")
    def _doctor(
        url: str = typer.Argument(DEFAULT_SERVER, help="Base URL of a server."),
        model: str | None = typer.Option(None, help="Which of its models; by default the first it lists."),
        key: Keys = None,
        key_file: KeyFiles = None,
        ca_cert: CaCert = None,
        insecure_http: InsecureHttp = False,
        timeout: float = typer.Option(60.0, help="Seconds for one request."),
        limit: float = typer.Option(1200.0, help="Seconds for all of it."),
        no_save: bool = typer.Option(False, "--no-save", help="Do not keep a profile for `run`, `chat` and `measure`."),
        as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output, and nothing else there."),
    ) -> None:
        """Find out, with about 40 requests, what a server does, and keep what runs can use.

        Exit codes: 0 examined. 1 it could not be examined to the end. 2 bad input.
        """
        if not timeout > 0 or not limit > 0:
            raise UserError("--timeout and --limit must be above 0 seconds")
        door = Door(key, key_file, ca_cert, insecure_http)
        base_url = base_of(url)
        check_encrypted(base_url, insecure_http=insecure_http)
        keys = door.read_keys()
        if len(keys) > 1:
            raise UserError("daneel doctor examines one server and takes one key")
        sender = Sender(
            base_url,
            api_key=keys[0] if keys else None,
            verify=ssl_context(ca_cert),
            limit_s=timeout,
            end_at=time.monotonic() + limit,
        )
        try:
            found = examine(sender, model, on_progress=_progress(Console(stderr=True, highlight=False)))
        finally:
            sender.close()
        keeps = not no_save and not found.ended_early and found.model is not None
        kept = server_profile.save(found.profile(), found.to_dict()) if keeps else None
        sandbox = _sandbox()
        if as_json:
            print(json.dumps({**found.to_dict(), "sandbox": sandbox, "saved": str(kept) if kept else None}), flush=True)
        else:
            _print(Console(highlight=False), found, sandbox, kept)
        raise typer.Exit(1 if found.ended_early else 0)


class _Progress:
    """Which probe is on: one line that changes at a terminal, a line each elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, number: int, total: int, name: str) -> None:
        line = f"{number}/{total} {name}"
        if self._console.is_terminal:
            end = "" if number < total else "\r" + " " * 60 + "\r"
            print(f"\r{line:<60}", end=end, file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def _progress(console: Console) -> _Progress:
    return _Progress(console)


def _sandbox() -> dict[str, str | bool]:
    """Whether commands that a model wants to run can be confined on this machine."""
    from daneel.harness.safety.confinement import NoSandbox
    from daneel.harness.safety.sandbox import find_sandbox

    try:
        sandbox = find_sandbox()
    except NoSandbox as error:
        return {"works": False, "words": f"{error}; commands are refused, unless --no-sandbox is given"}
    return {"works": True, "words": f"{sandbox.name} works: commands run in it"}


def _print(console: Console, found: Examination, sandbox: dict[str, str | bool], kept: Path | None) -> None:
    def line(text: str, style: str = "") -> None:
        console.print(Text(printable(text), style=style), soft_wrap=True)

    line(f"{found.server}, model {found.model or '(none)'}: {found.num_requests} requests", "bold")
    for topic in dict.fromkeys(finding.topic for finding in found.findings):
        line("")
        line(topic.replace("_", " "), "bold")
        for finding in found.findings:
            if finding.topic == topic:
                _finding(console, finding)
    line("")
    line("this machine", "bold")
    _finding(console, Finding("this machine", "sandbox", sandbox["works"] or None, str(sandbox["words"])))
    if found.recovery:
        line("")
        line("what the harness will do", "bold")
        for sentence in found.recovery:
            line(f"  {sentence}")
    line("")
    if found.ended_early:
        line(f"Not examined to the end: {found.ended_early}.", "yellow")
    elif found.model is None:
        line("Nothing is kept: the server lists no model, and a profile belongs to one; name it with --model.", "yellow")
    if kept is not None:
        line(f"Kept in {kept}: run, chat and measure use it with this server and model.")


def _finding(console: Console, finding: Finding) -> None:
    name = f"  {finding.name.replace('_', ' '):<{_WIDTH}}"
    style = "dim" if finding.value is None else ""
    console.print(Text(name + printable(finding.words.replace("\n", " ")), style=style), soft_wrap=True)
