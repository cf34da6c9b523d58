"""`daneel check`: is a harness file sound? Runs the examples of its tools and its goals' known answers, without a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from daneel.bench.goal_check import require_sound_goals
from daneel.cli.connection import clean_stdout
from daneel.errors import UserError
from daneel.harness.definition import Goal, Harness
from daneel.harness.files import load
from daneel.harness.tools.examples import Checked, check_example
from daneel.harness.tools.registry import Tool


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""

    @app.command("check")
    def _check(
        file: Path = typer.Argument(..., help="A harness file."),
        harness: list[str] = typer.Option([], help="Only these harnesses of the file (repeatable)."),
        as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output, and nothing else there."),
    ) -> None:
        """Check a harness file: it loads, its gates can open, and the examples of its tools give what they should.

        So do its goals: the set-up runs, the check passes the known pass and not the known fail. No model is needed.
        Exit code 0 when all is well, 1 when an example or a goal fails, 2 when the file cannot be used.
        """
        with clean_stdout(as_json) as stdout:
            held = load(file)
            harnesses = {name: held.harness(name) for name in dict.fromkeys(harness or held.harnesses)}
            # a tool that several harnesses share is tried once
            checked = {tool: [check_example(tool, example) for example in tool.examples] for tool in _tools(harnesses)}
            goals = {name: _problem(goal) for name, goal in held.goals.items()}
            told = _as_object(harnesses, checked, goals)
            if as_json:
                print(json.dumps(told, default=str), file=stdout, flush=True)
            else:
                out = Console(highlight=False)
                _print(out, harnesses, checked)
                for problem in filter(None, goals.values()):
                    out.print(f"[red]{escape(problem)}[/red]", soft_wrap=True)
        raise typer.Exit(0 if told["ok"] else 1)


def _problem(goal: Goal) -> str | None:
    try:
        require_sound_goals([goal])
    except UserError as error:
        return str(error)
    return None


def _tools(harnesses: Mapping[str, Harness]) -> Iterable[Tool]:
    return dict.fromkeys(tool for harness in harnesses.values() for tool in harness.tools)


def _print(out: Console, harnesses: Mapping[str, Harness], checked: Mapping[Tool, list[Checked]]) -> None:
    for name, harness in harnesses.items():
        out.print(f"[bold]{escape(name)}[/bold]: {len(harness.tools)} tools" if harness.tools else f"{escape(name)}: no tools")
        for tool in harness.tools:
            broken = [found for found in checked[tool] if found.problem is not None]
            notes = [_state(checked[tool], broken), *_facts(tool)]
            out.print(f"  {escape(tool.name)}: {escape('; '.join(notes))}", soft_wrap=True)
            for found in broken:
                said = f"{json.dumps(dict(found.arguments), ensure_ascii=False, default=str)} {found.problem}"
                out.print(f"    [red]{escape(said)}[/red]", soft_wrap=True)
    broken_tools = [tool.name for tool, results in checked.items() if any(found.problem is not None for found in results)]
    num_examples = sum(map(len, checked.values()))
    if broken_tools:
        out.print(f"Broken: {escape(', '.join(broken_tools))}.", soft_wrap=True)
    elif num_examples:
        out.print(f"All {num_examples} examples give what they should." if num_examples > 1 else "The example is right.")
    else:
        out.print("No tool has examples; @tool(examples=[Example(arguments, result)]) finds a broken one before a model does.")


def _state(results: list[Checked], broken: list[Checked]) -> str:
    if not results:
        return "no examples"
    if broken:
        return f"BROKEN ({len(broken)} of {len(results)} examples)"
    return "1 example ok" if len(results) == 1 else f"{len(results)} examples ok"


def _facts(tool: Tool) -> list[str]:
    """What is worth knowing of a tool before it is used."""
    facts = [f"effects: {', '.join(sorted(tool.effects))}"] if tool.effects else []
    facts += [
        f"after {after.tool}" + (f" with the same {', '.join(after.same)}" if after.same else "") for after in tool.gates.after
    ]
    if tool.gates.max_calls is not None:
        facts.append(f"at most {tool.gates.max_calls} calls")
    if tool.gates.hidden_until is not None:
        facts.append("hidden until its condition holds")
    return facts


def _as_object(
    harnesses: Mapping[str, Harness], checked: Mapping[Tool, list[Checked]], goals: Mapping[str, str | None]
) -> dict[str, Any]:
    return {
        "harnesses": {
            name: {
                "hash": harness.fingerprint(),
                "tools": [
                    {
                        "name": tool.name,
                        "effects": sorted(tool.effects),
                        "examples": [
                            {"arguments": dict(found.arguments), "ok": found.problem is None, "problem": found.problem}
                            for found in checked[tool]
                        ],
                    }
                    for tool in harness.tools
                ],
            }
            for name, harness in harnesses.items()
        },
        "goals": list(goals),
        "goal_problems": {name: problem for name, problem in goals.items() if problem is not None},
        "ok": all(found.problem is None for results in checked.values() for found in results)
        and all(problem is None for problem in goals.values()),
    }
