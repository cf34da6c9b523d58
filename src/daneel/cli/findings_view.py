"""How `daneel diagnose` and `daneel lint` print findings, and how they count tokens with a server's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from daneel.bench.finding import Finding, Gain
from daneel.bench.lint.tokens import TokenCounter
from daneel.cli.connection import connect
from daneel.cli.run_view import printable
from daneel.cli.server_options import Door
from daneel.errors import UserError
from daneel.harness.client import Client, ClientError

MIN_WIDTH = 100
SHOWN_EVIDENCE = 3

TITLES = {
    "never_shown": "never shown",
    "never_called": "never called",
    "always_failing": "always failing",
    "long_result": "long results",
    "formal_result": "formal results",
    "name": "long name",
    "gate": "gate worth trying",
}


def token_counter(
    stack: ExitStack, *, server: Sequence[str] | None, serve: str | None, model: str | None, door: Door
) -> TokenCounter:
    """Counts with the server's tokenizer where one is named; else by characters. Raises UserError."""
    if not server and serve is None:
        return TokenCounter()
    client, _ = connect(stack, server=server, serve=serve, model=model, door=door)
    return TokenCounter(lambda text: _pieces(client, text), model=client.model)


def _pieces(client: Client, text: str) -> list[str]:
    try:
        said: Any = client.tokenize(text)
    except ClientError as error:
        raise UserError(f"{client.server} cannot count tokens (POST /v1/tokenize): {error}; leave --server out") from error
    return list(said)


def console() -> Console:
    out = Console(highlight=False)
    if not out.is_terminal:
        out.width = max(out.width, MIN_WIDTH)
    return out


def print_finding(out: Console, number: int, finding: Finding, *, with_trials: bool) -> None:
    """One finding: what, what to do, what there is to gain, where to look."""
    title = TITLES.get(finding.kind, finding.kind)
    out.print(Text(printable(f"{number}. {title}: {', '.join(finding.tools)}"), style="bold"), soft_wrap=True)
    _line(out, finding.text)
    _line(out, f"→ {finding.advice}")
    if with_trials:
        _line(out, f"expected gain in E: {told_gain(finding.expected_gain)}", style="dim")
        tested = f"p {finding.p:.2g}, corrected for the number of tests; " if finding.p is not None else ""
        _line(out, f"{tested}to test it: about {finding.trials_needed} trials, both arms together", style="dim")
        for where in finding.evidence[:SHOWN_EVIDENCE]:
            _line(out, where.command, style="cyan")
    out.print()


def told_gain(gain: Gain) -> str:
    """A gain in words."""
    return f"unknown: {gain.how}" if gain.value is None else f"{gain.value:+.3f}, {gain.how}"


def _line(out: Console, text: str, *, style: str = "") -> None:
    out.print(Text(f"   {printable(text)}", style=style), soft_wrap=True)


def finding_object(finding: Finding) -> dict[str, Any]:
    """A finding for `--json`: its fields, and for each place the command that shows it."""
    plain: dict[str, Any] = msgspec.to_builtins(finding)
    plain["evidence"] = [{"run": each.run_id, "turn": each.turn, "command": each.command} for each in finding.evidence]
    return plain
