"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from daneel.cli.main import app
from daneel.harness.client import Client
from daneel.harness.files import load
from daneel.harness.loop import run
from tests.support.scripted_server import ScriptedServer, calls, text

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
COMMANDS = [line.split("#")[0].strip() for line in re.findall(r"^daneel .+$", README, re.MULTILINE)]


def test_the_first_harness_runs_and_its_goal_can_be_achieved_and_missed(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"```python\n(.+?)```", README, re.DOTALL)
    path = tmp_path / "clock.py"
    path.write_text(snippet, encoding="utf-8")
    held = load(path)

    def obedient(request: dict) -> object:  # type: ignore[type-arg]
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        return text(f"It is {results[0][:5]}.") if results else calls(("cur_time", {}))

    for script, achieved in ((obedient, True), ([text("It is noon.")], False)):
        with ScriptedServer(script) as server, Client(server.url) as client:
            finished = run(held.harness(), held.goal("now").prompt, client=client)
        assert finished.stop_reason == "answered"
        assert held.goal("now")(finished) is achieved


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_shown_is_one_that_daneel_takes(line: str) -> None:
    words = [word for word in shlex.split(re.sub(r"\[.*?\]|…", "", line)) if word]
    group = get_command(app)
    for word in words[1:]:
        if hasattr(group, "commands"):
            assert word in group.commands, f"daneel has no command {word!r}"
            group = group.commands[word]
        elif word.startswith("--"):
            options = {name for parameter in group.params for name in parameter.opts}
            assert word.split("=")[0] in options, f"{line!r}: no option {word}"


def test_commands_are_found() -> None:
    assert len(COMMANDS) >= 6
