"""Trials end to end against a scripted server: seeds, order, verdicts, what is stored and when."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock_model import EXPECTED_EFFECTIVENESS, clock_model
from tests.support.scripted_server import ScriptedServer, calls, error, text

from daneel import Goal, Harness, goal, tool
from daneel.bench.effectiveness import summarise
from daneel.bench.plan import Plan, inline_plan
from daneel.bench.runners.inline import InlineRunner
from daneel.bench.slot import seed_of
from daneel.bench.store import TrialStore
from daneel.bench.trial import ModelIdentity, identify
from daneel.errors import UserError
from daneel.harness.client import Client
from daneel.harness.files import load
from daneel.harness.retry import RetryPolicy

CLOCK = Path(__file__).resolve().parents[2] / "examples" / "clock.py"
MODEL = ModelIdentity("scripted", "m0", verified=False)


@goal(prompt="Say yes.")
def says_yes(trial) -> bool:
    return trial.answer == "yes"


@goal(prompt="Say yes.")
def broken(trial) -> bool:
    raise KeyError("answr")


@dataclass(frozen=True)
class Planned:
    harnesses: dict[str, Harness]
    goals: dict[str, Goal]
    plan: Plan

    def run(self, client, store):
        made = InlineRunner(harnesses=self.harnesses, goals=self.goals, client=client, model=self.model, store=store)
        return made.run(self.plan.slots())

    @property
    def model(self):
        return ModelIdentity(self.plan.model.name, self.plan.model.hash, self.plan.model.verified)


def measurement(*, harnesses=None, goal=says_yes, num_trials=1, base_seed=7, model=MODEL) -> Planned:
    harnesses = {"H": Harness()} if harnesses is None else harnesses
    plan = inline_plan(harnesses, [goal], model, num_trials=num_trials, base_seed=base_seed)
    return Planned(harnesses, {goal.name: goal}, plan)


@pytest.fixture
def store(tmp_path) -> Iterator[TrialStore]:
    with TrialStore(tmp_path / "trials.db") as store:
        yield store


def run_all(planned, script, store):
    with ScriptedServer(script) as server, Client(server.url, retries=RetryPolicy(max_retries=0)) as client:
        trials = list(planned.run(client, store))
    return trials, server.requests


@pytest.mark.parametrize("same", [True, False])
def test_a_trial_on_a_server_with_another_model_is_not_scored(store, same):
    entry = {"id": "m", "owned_by": "vllm", "max_model_len": 4096}
    listed = [error(200, {"data": [each]}) for each in (entry, entry if same else {**entry, "max_model_len": 2048})]
    with (
        ScriptedServer([text("yes"), error(500, "boom"), text("yes")], models=listed[0]) as first,
        ScriptedServer([text("yes")] * 3, models=listed[1]) as second,
        Client([first.url, second.url], wait=lambda _: None) as client,
    ):
        model = identify(client)
        planned = measurement(model=model, num_trials=3)
        expected = nullcontext() if same else pytest.raises(UserError, match=f"{second.url} serves another model")
        with expected:
            list(planned.run(client, store))
    stored = store.trials(planned.plan.id)
    assert [trial.achieved for trial in stored] == ([True, True, True] if same else [True, None])
    assert same or ("boom" in stored[1].not_scored and stored[1].stop_reason == "invalid")


def test_the_clock_harnesses_have_the_effectiveness_of_the_experiment(store):
    held = load(CLOCK)
    trials, _ = run_all(measurement(harnesses=held.harnesses, goal=held.goals["now"], num_trials=3), clock_model, store)
    found = {name: summarise([t for t in trials if t.harness == name]).numbers for name in held.harnesses}
    assert {name: numbers.effectiveness for name, numbers in found.items()} == EXPECTED_EFFECTIVENESS
    assert {name: numbers.p_achieved for name, numbers in found.items()} == dict.fromkeys(found, 1.0)
    assert {name: numbers.mean_turns for name, numbers in found.items()} == {"H1": 2, "H2": 3, "H3": 2, "H4": 2}
    assert {name: numbers.mean_calls for name, numbers in found.items()} == dict.fromkeys(found, 2)
    assert all(t.cached_tokens is not None and 0 < t.cached_tokens < t.prompt_tokens for t in trials)


def test_all_harnesses_see_the_same_seeds_interleaved(store):
    harnesses = {name: Harness(system=name) for name in ("A", "B", "C")}
    trials, requests = run_all(measurement(harnesses=harnesses, num_trials=3), lambda _: text("yes"), store)
    assert [t.harness for t in trials] == ["A", "B", "C", "B", "C", "A", "C", "A", "B"]
    assert [t.index for t in trials] == [0] * 3 + [1] * 3 + [2] * 3
    assert [r["seed"] for r in requests] == [t.seed for t in trials] == [seed_of(7, t.index) for t in trials]
    assert [r["messages"][0]["content"] for r in requests] == [t.harness for t in trials]


@given(st.integers(0, 2**40), st.integers(1, 50))
def test_seeds_differ_between_rounds_and_fit_every_server(base_seed, num_rounds):
    seeds = [seed_of(base_seed, index) for index in range(num_rounds)]
    assert len(set(seeds)) == num_rounds
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds == [seed_of(base_seed, index) for index in range(num_rounds)]


@given(st.integers(1, 5), st.integers(1, 20))
def test_every_harness_has_its_trials_and_each_place_in_the_order_equally_often(num_harnesses, rounds):
    names = [f"H{i}" for i in range(num_harnesses)]
    slots = list(measurement(harnesses=dict.fromkeys(names, Harness()), num_trials=rounds * num_harnesses).plan.slots())
    for place in range(num_harnesses):
        at_place = [slot.arm.name for slot in islice(slots, place, None, num_harnesses)]
        assert {name: at_place.count(name) for name in names} == dict.fromkeys(names, rounds)


def test_a_check_decides_whatever_the_stop_reason(store):
    @tool
    def again() -> str:
        """Do it again"""
        return "done"

    @goal(prompt="Call again.")
    def called(trial) -> bool:
        return any(call.name == "again" for call in trial.calls)

    planned = measurement(harnesses={"H": Harness(tools=[again], max_turns=2)}, goal=called)
    (trial,), _ = run_all(planned, lambda _: calls(("again", {})), store)
    assert (trial.stop_reason, trial.achieved, trial.turns) == ("turn_limit", True, 2)


def test_a_failing_server_makes_a_trial_invalid_and_never_a_zero_and_it_is_run_again(store):
    script = [text("yes"), error(500, "the engine died"), text("yes"), text("no")]
    trials, requests = run_all(measurement(num_trials=3), script, store)
    assert [(t.index, t.attempt, t.achieved) for t in trials] == [(0, 0, True), (1, 0, None), (1, 1, True), (2, 0, False)]
    assert trials[1].stop_reason == "invalid"
    assert "the engine died" in trials[1].not_scored
    assert requests[1]["seed"] == requests[2]["seed"], "the same place in the plan"
    summary = summarise(trials)
    assert (summary.num_scored, summary.num_invalid, round(summary.numbers.effectiveness, 9)) == (3, 1, round(2 / 3, 9))
    assert store.trials(trials[0].measurement) == trials


def test_an_invalid_trial_is_run_again_at_most_three_times_and_the_others_go_on(store):
    script = [*[error(500, "out of memory")] * 4, text("yes")]
    trials, _ = run_all(measurement(num_trials=2), script, store)
    assert [(t.index, t.attempt, t.achieved) for t in trials] == [*[(0, n, None) for n in range(4)], (1, 0, True)]


def test_a_check_that_raises_makes_a_trial_invalid_with_the_reason(store):
    (trial,), _ = run_all(measurement(goal=broken), [text("yes")], store)
    assert trial.achieved is None
    assert trial.not_scored == "the check of goal broken raised KeyError: 'answr'"
    assert summarise([trial]).num_invalid == 1


def test_a_check_that_ends_the_program_does_not_end_the_measurement(store):
    @goal(prompt="p")
    def leaves(trial):
        sys.exit("enough")

    trials, _ = run_all(measurement(goal=leaves, num_trials=2), [text("yes"), text("yes")], store)
    assert [trial.not_scored for trial in trials] == ["the check of goal leaves raised SystemExit: enough"] * 2


def test_a_trial_is_stored_before_it_counts(store):
    planned = measurement(num_trials=2)
    with ScriptedServer(lambda _: text("yes")) as server, Client(server.url) as client:
        for num_given, trial in enumerate(planned.run(client, store), start=1):
            stored = TrialStore(store.path).trials(planned.plan.id)
            assert len(stored) == num_given
            assert stored[-1] == trial


def test_hashes_of_harness_model_and_goal_are_stored(store):
    harnesses = {"A": Harness(system="a"), "B": Harness(system="b"), "also A": Harness(system="a")}
    trials, _ = run_all(measurement(harnesses=harnesses), lambda _: text("yes"), store)
    assert trials[0].harness_hash == trials[2].harness_hash != trials[1].harness_hash
    assert {t.goal_hash for t in trials} == {says_yes.fingerprint()} != {broken.fingerprint()}
    assert {(t.model_hash, t.model_verified) for t in trials} == {("m0", False)}


def test_an_interrupted_trial_is_stored_as_cancelled_and_ends_the_measurement(store):
    @tool
    def slow() -> str:
        """Takes long"""
        raise KeyboardInterrupt

    planned = measurement(harnesses={"H": Harness(tools=[slow])}, num_trials=3)
    script = [text("yes"), calls(("slow", {}))]
    with ScriptedServer(script) as server, Client(server.url) as client, pytest.raises(KeyboardInterrupt):
        list(planned.run(client, store))
    stored = store.trials(planned.plan.id)
    assert [(t.stop_reason, t.achieved) for t in stored] == [("answered", True), ("cancelled", None)]
    assert summarise(stored).num_cancelled == 1


def listing(*entries):
    return error(200, {"object": "list", "data": list(entries)})


OURS = {"id": "m", "object": "model", "created": 1, "owned_by": "daneel", "weights_sha256": "ab", "context_length": 8192}


def identity_of(*entries, model=None):
    with ScriptedServer([], models=listing(*entries)) as server, Client(server.url, model=model) as client:
        return identify(client)


def test_the_model_hash_covers_what_is_served_and_not_when_or_under_which_name():
    ours = identity_of(OURS)
    assert (ours.name, ours.verified) == ("m", True)
    assert identity_of({**OURS, "created": 2, "id": "alias"}).hash == ours.hash
    assert identity_of({**OURS, "weights_sha256": "cd"}).hash != ours.hash
    assert identity_of({**OURS, "context_length": 4096}).hash != ours.hash


def test_what_a_foreign_server_says_is_unverified():
    foreign = identity_of({"id": "qwen", "owned_by": "vllm", "created": 5, "permission": [{"id": "p1"}]})
    assert (foreign.name, foreign.verified) == ("qwen", False)
    assert identity_of({"id": "qwen", "owned_by": "vllm", "created": 6, "permission": [{"id": "p2"}]}) == foreign
    assert identity_of({"id": "other", "owned_by": "vllm", "created": 5}).hash != foreign.hash
    assert identity_of({**OURS, "weights_sha256": None}).verified is False
    assert identity_of(OURS, model="not-listed") == ModelIdentity("not-listed", identity_of(model="not-listed").hash, False)


def test_a_model_must_be_named_when_the_server_has_several():
    with pytest.raises(UserError, match="2 models"):
        identity_of(OURS, {**OURS, "id": "n"})
    assert identity_of(OURS, {**OURS, "id": "n"}, model="n").verified


def test_a_server_that_cannot_be_reached_is_one_sentence():
    with (
        Client("http://127.0.0.1:9", retries=RetryPolicy(max_retries=0)) as client,
        pytest.raises(UserError, match=r"127\.0\.0\.1:9"),
    ):
        identify(client)
