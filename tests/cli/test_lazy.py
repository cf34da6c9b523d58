"""Commands come when they are asked for, and a quick one does not import the loop, the client or the server."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from daneel.cli.lazy import lazy_group
from daneel.cli.main import COMMANDS, app

SLOW = ("httpx2", "numpy", "starlette", "daneel.harness.loop", "daneel.harness.definition", "daneel.bench", "daneel.server")


def imported_by(*arguments: str) -> set[str]:
    script = (
        "import sys\nfrom daneel.cli.main import app\n"
        "try:\n    app(sys.argv[1:])\nfinally:\n    print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_what_only_lists_runs_waits_for_nothing_that_runs_them():
    modules = imported_by("transcripts", "list")
    assert "daneel.cli.transcripts" in modules
    assert not modules & set(SLOW)
    assert {"daneel.harness.loop", "daneel.bench"} <= imported_by("measure", "--help") & set(SLOW)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there(name):
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0
    assert f"Usage: daneel {name} " in done.output.replace("root", "daneel")


def test_help_lists_all_in_their_order_and_a_slip_is_answered():
    out = CliRunner().invoke(app, ["--help"]).output
    places = [out.index(f"\n  {name} ") for name in COMMANDS]
    assert places == sorted(places)
    assert "Did you mean 'measure'" in CliRunner().invoke(app, ["mesure"]).output


def test_own_commands_come_first_and_every_one_is_found_by_its_name():
    group = typer.Typer(cls=lazy_group({"replay": "daneel.cli.replay", "label": "daneel.cli.detectors"}))
    group.callback()(lambda: None)
    group.command("own")(lambda: None)
    command = typer.main.get_command(group)
    assert list(command.commands) == ["own", "replay", "label"]
    assert command.commands["replay"].name == "replay"
    assert command.commands.get("nothing") is None
    assert [name for name, _ in command.commands.items()] == ["own", "replay", "label"]
    assert all(each is not None for each in command.commands.values())
