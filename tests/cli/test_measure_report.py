"""What the report concludes, and that what a model or a person wrote is shown as written."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from tests.support.trials import make_trial

from daneel import Harness, goal, tool
from daneel.bench.plan import inline_plan
from daneel.bench.trial import ModelIdentity
from daneel.cli import measure_report
from daneel.cli.measure_report import conclusion, print_plan, print_results, print_transcript


@tool(description="[red]Look up[/red]\nand more")
def look_up(word: str) -> str:
    return word


@goal(prompt="What does [bold]x[/bold] mean?")
def meaning(trial) -> bool:
    return True


MODEL = ModelIdentity("tiny", "m", verified=True)


def plan_of(*names):
    return inline_plan(dict.fromkeys(names, Harness()), [meaning], MODEL, num_trials=20, base_seed=3)


MEASURED = inline_plan(
    {"A[1]": Harness(tools=[look_up], temperature=0.5), "B": Harness(temperature=0.5)},
    [meaning],
    MODEL,
    num_trials=20,
    base_seed=3,
)


def printed(show, *arguments, **named):
    out = io.StringIO()
    show(Console(file=out, width=120, highlight=False), *arguments, **named)
    return out.getvalue()


def trials_of(**num_achieved):
    return [
        make_trial(harness=name, achieved=index < count, goal="meaning", index=index)
        for name, count in num_achieved.items()
        for index in range(20)
    ]


@pytest.mark.parametrize(
    ("achieved", "said"),
    [
        ({"A": 20, "B": 2}, "The intervals of A and B do not overlap; other differences may be chance."),
        ({"A": 20, "B": 2, "C": 1}, "The intervals of A and B, and of A and C do not overlap"),
        ({"A": 12, "B": 9}, "do not show that one harness is better"),
        ({"A": 0, "B": 0}, "never achieved; with so few trials, the true E may still be up to 0.17"),
        ({"A": 12}, "20 scored trials of one goal on one model (tiny). It says nothing of other goals or models."),
    ],
)
def test_the_conclusion_says_no_more_than_the_intervals_do(achieved, said):
    assert said in conclusion(plan_of(*achieved), trials_of(**achieved))


def test_without_a_scored_trial_nothing_was_measured():
    invalid = make_trial(achieved=None, stop_reason="invalid", not_scored="the server went away", harness="A", goal="meaning")
    assert conclusion(plan_of("A"), [invalid]) == "Nothing was measured: no trial could be scored."
    out = printed(print_results, plan_of("A"), [invalid])
    assert "none scored" in out
    assert "1 not scored: the server went away" in out


def test_long_texts_are_shortened_by_characters_and_by_lines():
    short = "a\n" * measure_report.MAX_TEXT_LINES
    assert measure_report._short(short.rstrip()) == short.rstrip()
    for text in ("a\n" * 500, "a" * 5000):
        shown = measure_report._short(text)
        assert shown.endswith(f"… ({len(text)} characters)")
        assert len(shown) < measure_report.MAX_TEXT_CHARS + 30
        assert shown.count("\n") < measure_report.MAX_TEXT_LINES


def test_names_prompts_and_descriptions_are_shown_as_written():
    out = printed(print_plan, MEASURED, server="http://[::1]:8080/v1")
    for written in (
        "A[1]",
        "What does [bold]x[/bold] mean?",
        "look_up “[red]Look up[/red]”",
        "http://[::1]:8080/v1",
        "(no tools)",
    ):
        assert written in out
    assert "unverified" not in out
    assert "A[1]" in printed(print_results, MEASURED, [make_trial(harness="A[1]", goal="meaning")])


def test_a_transcript_shows_thoughts_calls_failures_and_results_as_written():
    call = {"id": "1", "function": {"name": "look_up", "arguments": '{"word": "[x]"}'}}
    messages = [
        {"role": "user", "content": "What does [bold]x[/bold] mean?"},
        {"role": "assistant", "content": None, "reasoning": "Let me see [1].", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "y" * 5000},
        {"role": "assistant", "content": "", "failed_tool_calls": [{"raw": "<tool_call>{", "error": {}}]},
        {"role": "assistant", "content": ""},
    ]
    trial = make_trial(harness="A[1]", achieved=False, turns=3)
    out = printed(print_transcript, trial, messages, plan=MEASURED, trials=[trial])
    assert "A[1], round 1, goal not achieved (0 of 1 scored trial" in out
    for shown in (
        "What does [bold]x[/bold] mean?",
        "Let me see [1].",
        '→ look_up({"word": "[x]"})',
        "could not be read: <tool_call>{",
        "(empty)",
        "(5000 characters)",
    ):
        assert shown in out


def test_several_goals_are_told_goal_by_goal_with_the_question_that_their_mean_answers(tmp_path, monkeypatch):
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path))

    @goal(prompt="And the other?", min_turns=2)
    def other(trial) -> bool:
        return True

    plan = inline_plan({"A": Harness(), "B[1]": Harness()}, [meaning, other], MODEL, num_trials=4, base_seed=3)
    trials = [
        make_trial(harness=name, goal=each, index=index, achieved=each == "other" or index < count, turns=turns)
        for name, count, turns in (("A", 1, 2), ("B[1]", 3, 3))
        for each in ("meaning", "other")
        for index in range(4)
    ]
    out = " ".join(printed(print_results, plan, trials).split())
    for said in (
        "E by goal A B[1]",
        "meaning 0.25 [",
        "What E answers here: How effective would it be on these goals if they were tried again?",
        "The mean over goals is descriptive: fewer than 10 goals",
        "B[1] pass^k 0.75 for k = 2, 0.50 for k = 4; SPL 0.67",
        "Against A B[1] dE -0.188 = +0.188 more goals achieved, -0.375 fewer turns when achieved",
    ):
        assert said in out, said
    assert "Turns lost" not in out, "there are no transcripts"
    found = measure_report.results_object(plan, trials)
    assert found["A"]["against"] is None
    assert found["B[1]"]["against"]["difference"] == pytest.approx(-0.1875)
    assert found["B[1]"]["goals"]["by_goal"]["other"]["spl"] == pytest.approx(2 / 3)
    assert found["A"]["lost_turns"]["unread"] == 8
