"""The examples for cron, systemd and launchd: each is what its scheduler reads, runs at 8, and its command line is ours."""

from __future__ import annotations

import configparser
import plistlib
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from daneel.cli.main import app
from daneel.cli.run import LOCKED

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def cron_line() -> tuple[list[str], str]:
    """The five fields of time, and the command."""
    lines = [line for line in (EXAMPLES / "cron/news.crontab").read_text().splitlines() if line and not line.startswith("#")]
    settings = [line for line in lines if re.match(r"[A-Z_]+=", line)]
    (job,) = [line for line in lines if line not in settings]
    *times, command = job.split(maxsplit=5)
    return times, command


def unit(name: str) -> configparser.ConfigParser:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read(EXAMPLES / "systemd" / name)
    return read


def commands() -> dict[str, list[str]]:
    cron = shlex.split(cron_line()[1].partition(" >")[0])
    systemd = shlex.split(unit("daneel-news.service")["Service"]["ExecStart"])[1:]
    launchd = plistlib.loads((EXAMPLES / "launchd/org.daneel.news.plist").read_bytes())["ProgramArguments"]
    return {"cron": cron, "systemd": systemd, "launchd": launchd}


@pytest.mark.parametrize("scheduler", ["cron", "systemd", "launchd"])
def test_each_command_line_is_one_that_daneel_takes(scheduler: str) -> None:
    program, command, file, *options = commands()[scheduler]
    assert (Path(program).name, command, Path(file).name) == ("daneel", "run", "news.py")
    assert options[:2] == ["--goal", "brief"]
    assert "--no-overlap" in options
    options[options.index("--then") + 1] = options[options.index("--or-else") + 1] = "no-such-program-here"
    # it goes as far as to look for the program that gets the answer: every option was understood
    result = CliRunner().invoke(app, ["run", str(EXAMPLES / "news.py"), *options])
    assert "there is no program no-such-program-here" in str(result.exception), result.output


def test_each_runs_at_eight_every_morning() -> None:
    times, command = cron_line()
    assert times == ["0", "8", "*", "*", "*"]
    assert "%" not in command  # cron would end the line there
    timer = unit("daneel-news.timer")
    assert timer["Timer"]["OnCalendar"] == "*-*-* 08:00:00"
    assert timer["Install"]["WantedBy"] == "timers.target"
    job = plistlib.loads((EXAMPLES / "launchd/org.daneel.news.plist").read_bytes())
    assert job["StartCalendarInterval"] == {"Hour": 8, "Minute": 0}


def test_what_they_say_of_exit_codes_is_true() -> None:
    assert unit("daneel-news.service")["Service"]["SuccessExitStatus"] == "75"
    assert LOCKED == 75
