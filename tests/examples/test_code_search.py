"""The thirty tools: their goals are sound, and `diagnose` finds what was planted in them, and nothing else of these kinds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import Reply, ScriptedServer, calls, text

from daneel.bench.diagnose.diagnosis import diagnose
from daneel.bench.diagnose.reading import RunReader, Selection
from daneel.bench.finding import Finding
from daneel.bench.goal_check import require_sound_goals
from daneel.bench.plan import inline_plan
from daneel.bench.runners.inline import InlineRunner
from daneel.bench.slot import seed_of
from daneel.bench.store import TrialStore
from daneel.bench.trial import identify
from daneel.harness.client import Client
from daneel.harness.files import HarnessFile, load
from daneel.harness.transcript import TranscriptStore

EXAMPLE = Path(__file__).parents[2] / "examples" / "code_search" / "thirty.py"
OVERLAPS = [{"find_text", "grep_code"}, {"show_file", "print_source"}, {"list_modules", "project_tree"}]
SUCCESSIONS = [("locate_definition", "code_at"), ("list_tests", "show_test")]
RETRY = ("find_constant_file", "constant_value")
BASE_SEED = 1
NUM_TRIALS = {"where": 20, "limit": 12, "callers": 24, "raises": 12, "which_test": 12}


@pytest.fixture(scope="module")
def example() -> HarnessFile:
    return load(EXAMPLE)


def steps(prompt: str, seed: int) -> list[Any]:
    """What a model would do that finds every way as good as the next: calls, and then an answer."""
    rng = random.Random(seed)
    file_tool = rng.choice(["show_file", "print_source"])
    files = (rng.choice(["list_modules", "project_tree"]), {})
    line_tool, argument = rng.choice([("find_text", "text"), ("grep_code", "query")])
    if "may_join" in prompt:
        return [files, (file_tool, {"path": "readers.py"}), "It is in readers.py."]
    if "MAX_LOANS" in prompt:
        value = ("constant_value", {"name": "MAX_LOANS"})
        return [("find_constant_file", {"name": "MAX_LOANS"}), value, "It is 6."]
    if "late_fee" in prompt:
        by_text = [(line_tool, {argument: "late_fee("}), (file_tool, {"path": "loans.py"})]
        is_first = seed == seed_of(BASE_SEED, 0)
        return [*([("who_calls", {"name": "late_fee"})] if is_first else by_text), "It is called by take_back."]
    if "renew raise" in prompt:
        return [("locate_definition", {"name": "renew"}), ("code_at", {"location": "loans.py:26"}), "AlreadyRenewed."]
    shown = ("show_test", {"name": "test_second_renewal_is_refused"})
    return [("list_tests", {}), shown, "test_second_renewal_is_refused"]


def reply(request: dict[str, Any]) -> Reply:
    """The next step of the run that a request belongs to. Its seed decides, so that it is the same one throughout."""
    messages = request["messages"]
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    planned = steps(prompt, request["seed"])
    step = planned[sum(message["role"] == "tool" for message in messages)]
    return text(step) if isinstance(step, str) else calls(step)


@pytest.fixture(scope="module")
def findings(example: HarnessFile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Finding, ...]]:
    """Of trials with the real tools on the real project."""
    folder = tmp_path_factory.mktemp("stores")
    harness = example.harness("thirty")
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedServer(reply))
        client = stack.enter_context(Client(server.url))
        transcripts = stack.enter_context(TranscriptStore(folder / "runs.db"))
        store = stack.enter_context(TrialStore(folder / "trials.db"))
        model = identify(client)
        goals = list(example.goals.values())
        plan = inline_plan({"thirty": harness}, goals, model, num_trials=max(NUM_TRIALS.values()), base_seed=BASE_SEED)
        runner = InlineRunner(
            harnesses={"thirty": harness},
            goals=example.goals,
            client=client,
            model=model,
            store=store,
            transcripts=lambda slot: transcripts,
        )
        trials = list(runner.run(slot for slot in plan.slots() if slot.index < NUM_TRIALS[slot.goal]))
        assert [trial.achieved for trial in trials] == [True] * sum(NUM_TRIALS.values())
        with RunReader(folder / "runs.db", folder / "trials.db") as reader:
            yield diagnose(reader.read(Selection(measurements=(plan.id,)))).findings


def of_kind(findings: tuple[Finding, ...], kind: str, way: str | None = None) -> list[tuple[str, ...]]:
    return [finding.tools for finding in findings if finding.kind == kind and finding.data.get("way") == way]


def test_thirty_tools_and_sound_goals(example: HarnessFile) -> None:
    assert {name: len(harness.tools) for name, harness in example.harnesses.items()} == {"thirty": 30, "pruned": 6, "bare": 2}
    require_sound_goals(example.goals.values())


def test_the_overlaps_are_found(findings: tuple[Finding, ...]) -> None:
    found = [set(tools) for tools in of_kind(findings, "overlap", "alternatives")]
    assert [pair for pair in OVERLAPS if pair not in found] == []


def test_the_successions_are_found(findings: tuple[Finding, ...]) -> None:
    assert sorted(of_kind(findings, "succession")) == sorted(SUCCESSIONS)


def test_the_retry_is_found(findings: tuple[Finding, ...]) -> None:
    assert of_kind(findings, "overlap", "retry") == [RETRY]


def test_the_unused_tools_are_found_and_no_others(example: HarnessFile, findings: tuple[Finding, ...]) -> None:
    used = {*set.union(*OVERLAPS), *(name for pair in SUCCESSIONS for name in pair), *RETRY, "who_calls"}
    unused = {tool.name for tool in example.harness("thirty").tools} - used
    assert len(unused) == 17
    assert {name for tools in of_kind(findings, "never_called") for name in tools} == unused


def test_every_tool_runs_on_the_project(example: HarnessFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE.parent / "project")
    given = {
        "text": "late_fee",
        "query": "late_fee",
        "path": "loans.py",
        "location": "loans.py:26",
        "name": "renew",
        "module": "fees",
    }
    for tool in example.harness("thirty").tools:
        arguments = {name: given[name] for name in tool.parameters.get("properties", {})}
        if tool.name == "constant_value":
            arguments = {"name": "LOAN_DAYS"}
        assert tool.run(arguments), tool.name


@pytest.mark.parametrize("path", ["../thirty.py", "/etc/hostname", "nothing.py", ""])
def test_no_file_outside_is_shown(path: str, example: HarnessFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE.parent / "project")
    for tool in example.harness("thirty").tools:
        if "path" in tool.parameters.get("properties", {}):
            with pytest.raises(Exception, match=r"no file|absolute path|leads out"):
                tool.run({"path": path})
