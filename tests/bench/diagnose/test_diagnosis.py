"""Diagnosis finds every planted fault, and nothing where there is none."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.planted.base import Planted, ScriptClient, is_right, play, runs
from tests.support.planted.clean import CLEAN, clock
from tests.support.planted.faulty import FAULTY, badly_named, broken, dead, in_two_steps
from tests.support.trials import make_trial

from daneel.bench.diagnose.diagnosis import Diagnosis, diagnose
from daneel.bench.diagnose.reading import RunReader
from daneel.bench.diagnose.view import CallView, RunView
from daneel.bench.finding import KINDS, Finding
from daneel.bench.store import TrialStore
from daneel.harness.loop import run
from daneel.harness.transcript import TranscriptStore

TRIALS = 60
ALL = (*FAULTY, *CLEAN)


def found(diagnosis: Diagnosis) -> set[tuple[str, frozenset[str]]]:
    return {(finding.kind, frozenset(finding.tools)) for finding in diagnosis.findings}


@pytest.mark.parametrize("planted", ALL, ids=lambda planted: planted.name)
def test_what_was_planted_is_found_and_nothing_else(planted: Planted) -> None:
    for start in (0, 1000, 2000):
        diagnosis = diagnose(runs(planted, trials=TRIALS, start=start))
        assert found(diagnosis) == planted.faults


@pytest.mark.exhaustive
@pytest.mark.parametrize("planted", ALL, ids=lambda planted: planted.name)
def test_what_was_planted_is_found_and_nothing_else_in_a_hundred_measurements(planted: Planted) -> None:
    diagnoses = [found(diagnose(runs(planted, trials=TRIALS, start=TRIALS * number))) for number in range(100)]
    assert sum(each != planted.faults for each in diagnoses) <= 5


@pytest.mark.parametrize("planted", ALL, ids=lambda planted: planted.name)
def test_the_planted_effectiveness_is_the_true_one(planted: Planted) -> None:
    for goal, expected in planted.effectiveness.items():
        values = [play(planted, goal, seed).value() for seed in range(3000)]
        assert sum(values) / len(values) == pytest.approx(expected, abs=0.035)


@pytest.mark.parametrize("planted", FAULTY, ids=lambda planted: planted.name)
def test_every_finding_says_where_to_look_and_what_to_expect(planted: Planted) -> None:
    ran = {each.id: each for each in runs(planted, trials=TRIALS)}
    for finding in diagnose(iter(ran.values())).findings:
        assert finding.kind in KINDS
        assert finding.harness == planted.name
        assert finding.trials_needed > 0
        assert finding.expected_gain.how
        assert finding.evidence
        for place in finding.evidence:
            assert 1 <= place.turn <= ran[place.run_id].turns
        if finding.kind not in ("never_shown", "never_called", "description", "name", "ambiguity"):
            for place in finding.evidence:
                called = {call.name for call in ran[place.run_id].calls if call.turn == place.turn}
                assert called & set(finding.tools)


def one(diagnosis: Diagnosis, kind: str, way: str | None = None) -> Finding:
    (finding,) = [each for each in diagnosis.findings if each.kind == kind and each.data.get("way") == way]
    return finding


def test_the_gain_is_what_saving_the_turns_would_bring() -> None:
    ran = list(runs(in_two_steps, trials=TRIALS))
    gain = one(diagnose(ran), "succession").expected_gain.value
    shorter = [(1 / max(1, each.turns - 2) if each.achieved else 0.0) - each.value() for each in ran]
    assert gain == pytest.approx(sum(shorter) / len(ran), abs=1e-4)


def test_a_broken_tool_costs_the_turns_it_took() -> None:
    ran = list(runs(broken, trials=TRIALS))
    finding = one(diagnose(ran), "always_failing")
    assert finding.data["turns"] == sum(len(each.calls) == 2 for each in ran)
    assert "the bank does not answer" in finding.text


def test_what_a_tool_costs_that_nobody_calls_is_counted_in_tokens() -> None:
    finding = one(diagnose(runs(dead, trials=TRIALS)), "never_called")
    assert finding.data["total_tokens"] == finding.data["declaration_tokens"] * 2 * TRIALS
    assert finding.expected_gain.value == 0.0


def test_what_is_wrong_with_a_description_is_shown_by_trials_that_failed_without_the_tool() -> None:
    ran = {each.id: each for each in runs(badly_named, trials=TRIALS)}
    (finding,) = [each for each in diagnose(iter(ran.values())).findings if each.tools == ("my_data",)]
    assert finding.evidence
    for place in finding.evidence:
        assert not ran[place.run_id].achieved
        assert "my_data" not in ran[place.run_id].used


def test_few_trials_are_no_reason_to_call_a_tool_dead() -> None:
    assert not diagnose(runs(dead, trials=8)).findings


def test_runs_cut_short_and_held_out_goals_are_left_out() -> None:
    ran = list(runs(dead, trials=TRIALS))
    for each in ran[:10]:
        each.stop_reason = "invalid"
    for each in ran[10:15]:
        each.held_out = True
    (report,) = diagnose(ran).harnesses
    assert (report.num_runs, report.num_left_out) == (TRIALS - 15, 15)
    (report,) = diagnose(ran, held_out=True).harnesses
    assert report.num_left_out == 10


def test_harnesses_of_one_name_and_two_hashes_are_kept_apart() -> None:
    first, second = list(runs(broken, trials=TRIALS)), list(runs(clock, trials=TRIALS))
    for each in second:
        each.harness, each.harness_hash = "broken", "other"
    diagnosis = diagnose([*first, *second])
    assert [(report.harness, report.harness_hash) for report in diagnosis.harnesses] == [("broken", "h"), ("broken", "other")]
    assert {finding.data["harness_hash"] for finding in diagnosis.findings} == {"h"}


def test_runs_without_calls_or_scores_give_no_findings_and_no_error() -> None:
    empty = [RunView(f"r{n}", "empty", "", "g", "", [], turns=1, achieved=None) for n in range(50)]
    diagnosis = diagnose(empty)
    assert not diagnosis.findings
    assert diagnosis.harnesses[0].effectiveness is None
    assert not diagnose([]).harnesses


def test_unknown_tools_and_odd_arguments_are_no_error() -> None:
    calls = [
        CallView(1, "nowhere", {"": "text"}, problem="unknown_tool"),
        CallView(1, "cur_time", {"x": [{"y": None}]}, result="1"),
    ]
    odd = [
        RunView(f"r{n}", "clock", "h", "g", "p", clock.harness.declarations(), calls=list(calls), turns=2) for n in range(40)
    ]
    diagnose(odd)


def test_stored_runs_of_the_real_loop_are_read_as_they_were(tmp_path: Path) -> None:
    """The loop, the stores and the reader between them lose nothing that the simulation has."""
    with ExitStack() as stack:
        transcripts = stack.enter_context(TranscriptStore(tmp_path / "transcripts.db"))
        trials = stack.enter_context(TrialStore(tmp_path / "trials.db"))
        for planted in ALL:
            _store(planted, transcripts, trials, num=4)
    with RunReader(tmp_path / "transcripts.db", tmp_path / "trials.db") as reader:
        read = list(reader.read(reader.select(["m_planted"])))
    expected = [play(planted, goal, seed) for planted in ALL for goal in planted.goals for seed in range(4)]
    seen = sorted((each.harness, each.goal, _as_data(each)) for each in read)
    assert seen == sorted((each.harness, each.goal, _as_data(each)) for each in expected)


def _as_data(each: RunView) -> str:
    calls: list[Any] = [(c.turn, c.name, c.arguments, sorted(c.effects), c.result, c.error, c.problem) for c in each.calls]
    return repr((calls, each.answer, each.achieved, each.turns, sorted(each.shown.items()), each.names, each.prompt))


class _Yes:
    """Allows all that tools would do."""

    def ask(self, request: object, /) -> bool:
        return True


def _store(planted: Planted, transcripts: TranscriptStore, trials: TrialStore, *, num: int) -> None:
    client: Any = ScriptClient([planted])
    harness = planted.harness.with_changes(name=planted.name)
    for goal, (prompt, _) in planted.goals.items():
        for seed in range(num):
            finished = run(harness, prompt, client=client, transcript=transcripts, seed=seed, stream=False, approver=_Yes())
            assert finished.stop_reason == "answered", finished.detail
            trial = make_trial(
                measurement="m_planted",
                index=seed,
                harness=planted.name,
                goal=goal,
                seed=seed,
                run_id=finished.id,
                achieved=is_right(finished.answer),
                turns=finished.turns,
                harness_hash=harness.fingerprint(),
            )
            trials.add(trial)
