"""Numbers that must not stand beside each other are refused, and the error shows what differs."""

from __future__ import annotations

import pytest
from tests.support.trials import make_trial

from daneel import Harness, goal, tool
from daneel.bench.identity_diff import harness_diff, model_diff, require_comparable, side_of
from daneel.bench.plan import inline_plan
from daneel.bench.trial import ModelIdentity
from daneel.errors import UserError


def clock(name, description):
    @tool(name=name, description=description)
    def today() -> str:
        return "2026-12-01"

    return Harness(tools=[today])


def make_goal(prompt):
    @goal(prompt=prompt, name="now")
    def check(trial) -> bool:
        return True

    return check


def plan_of(harness=None, prompt="What day is it?", model="small", **facts):
    identity = ModelIdentity(model, f"hash of {model}", verified=True, facts={"size": 1, **facts})
    return inline_plan(
        {"H": harness or clock("cur_date", "Get the date")}, [make_goal(prompt)], identity, num_trials=1, base_seed=1
    )


def side(plan, label, **fields):
    arm, chosen = plan.arms[0], plan.goals[0]
    hashes = {"harness_hash": arm.hash, "model_hash": plan.model.hash, "goal_hash": chosen.hash, "harness": "H", **fields}
    return side_of(plan, [make_trial(**hashes)], "H", label)


def test_one_difference_is_what_a_comparison_is_for():
    base = side(plan_of(), "a")
    require_comparable(base, base)
    require_comparable(base, side(plan_of(clock("my_date", "TODO")), "b"))
    require_comparable(base, side(plan_of(model="large"), "b"))


def test_a_goal_that_was_changed_in_between_is_refused_with_its_difference():
    with pytest.raises(UserError, match=r"goal now is not the same in a .* and b") as refused:
        require_comparable(side(plan_of(), "a"), side(plan_of(prompt="What day is it today?"), "b"))
    assert "-prompt: What day is it?\n+prompt: What day is it today?" in str(refused.value)


def test_harness_and_model_both_different_is_refused_with_the_models_difference():
    with pytest.raises(UserError, match=r"differ in both harness .* and model") as refused:
        require_comparable(side(plan_of(), "a"), side(plan_of(clock("my_date", "TODO"), model="large", context=4096), "b"))
    assert "-name: small\n+name: large" in str(refused.value)
    assert '+ "context": 4096' in str(refused.value)


def test_trials_of_two_harnesses_under_one_name_are_refused():
    plan = plan_of()
    mixed = side_of(plan, [make_trial(harness="H", harness_hash="x"), make_trial(harness="H", harness_hash="y")], "H", "a")
    with pytest.raises(UserError, match=r"a: its trials are of more than one harness \(H x, y\)"):
        require_comparable(mixed, side(plan, "b"))


def test_what_is_not_on_record_is_said_to_be_so():
    first = side_of(None, [make_trial(harness="H", goal_hash="x")], "H", "a")
    with pytest.raises(UserError, match="for a is not on record"):
        require_comparable(first, side_of(None, [make_trial(harness="H", goal_hash="y")], "H", "b"))


def test_the_difference_of_two_harnesses_shows_names_descriptions_schemas_and_sources():
    first, second = plan_of().arms[0], plan_of(clock("my_date", "TODO")).arms[0]
    differs = harness_diff(first, second)
    for line in ("-tool cur_date: Get the date", "+tool my_date: TODO"):
        assert line in differs.splitlines()
    assert harness_diff(first, first) == ""
    assert "system" not in differs, "what is the same is not shown"
    changed = plan_of(clock("cur_date", "Get the date").with_changes(max_turns=3)).arms[0]
    assert "max_turns: hash" in harness_diff(first, changed)


def test_the_difference_of_two_models():
    first, second = plan_of().model, plan_of(model="large").model
    assert "-name: small\n+name: large" in model_diff(first, second)
    assert model_diff(first, first) == ""
