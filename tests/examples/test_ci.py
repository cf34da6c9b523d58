"""The workflow in examples/ci: every daneel command in it exists, with the options that it gives."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import typer
import yaml
from typer.main import get_command

from daneel.cli.main import app

WORKFLOW = Path(__file__).resolve().parents[2] / "examples" / "ci" / "gate.yml"


def steps():
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def commands() -> list[list[str]]:
    lines = [step["run"] for step in steps() if step.get("run", "").startswith("daneel ")]
    return [shlex.split(line.split("|")[0])[1:] for line in lines]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_each_command_is_understood(words):
    root = get_command(app)
    name, *arguments = words
    command = root.get_command(typer.Context(root), name)
    if isinstance(command, typer.core.TyperGroup):
        name, *arguments = arguments
        command = command.get_command(typer.Context(command), name)
    assert command is not None
    command.make_context(name, arguments)


def test_baseline_and_gate_see_the_same_store_and_a_pipe_hides_no_exit_code():
    assert {words[0] for words in commands()} == {"models", "measure", "lint", "gate"}
    caches = [step["with"]["path"] for step in steps() if "cache" in step.get("uses", "")]
    assert caches == [".daneel/data"] * 2
    assert all(step.get("shell") == "bash" for step in steps() if "|" in step.get("run", ""))
