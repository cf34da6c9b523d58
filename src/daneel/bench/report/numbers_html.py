"""The sections of the report that show numbers: effectiveness, what changed, turns lost."""

from __future__ import annotations

from collections.abc import Sequence

from daneel.bench.goal_set import DESCRIPTIVE, GOALS_LIKE_THESE, GoalSet
from daneel.bench.lost_turns import IN_WORDS
from daneel.bench.report import charts
from daneel.bench.report.data import Difference, Report, Version
from daneel.bench.report.parts import bracketed, key, links, or_dash, table
from daneel.bench.report.text import esc, short

MEANING = "E = mean of achieved / max(1, turns − 1): 1 is always, by the shortest way; 0 is never."


def effectiveness(report: Report, names: dict[str, str]) -> str:
    measured = [version for version in report.versions if version.summary is not None]
    if not measured:
        return ""
    rows = [(names[v.id], v.goals.effectiveness, v.goals.goals_like_these or v.goals.these_goals) for v in measured if v.goals]
    said = f'<p class="note">{esc(MEANING)}</p>'
    if rows:
        questions = dict.fromkeys(v.goals.question for v in measured if v.goals)
        chart = charts.intervals(rows, "Effectiveness of each version, with its 95 % interval")
        caption = f"The oldest first; 95 % intervals. {esc(' '.join(questions))}"
        said += f'<figure>{chart}<figcaption class="note">{caption}</figcaption></figure>'
        if any(v.goals and v.goals.goals_like_these is None and len(v.goals.by_goal) > 1 for v in measured):
            said += f'<p class="note">The mean over goals is {esc(DESCRIPTIVE)}.</p>'
    head = ["", "E", "P", "SPL", "pass^k", "turns", "calls", "tokens in", "out", "cached", "sec", "trials", "invalid"]
    numbers = table(head, [_number_row(names[v.id], v) for v in measured])
    return said + numbers + "".join(_by_goal(names[v.id], v.goals, report.goals) for v in measured if v.goals)


def _number_row(name: str, version: Version) -> list[str]:
    summary = version.summary
    assert summary is not None
    found, goals = summary.numbers, version.goals
    label = f"<b>{esc(name)}</b><small>{esc(version.created_at[:16].replace('T', ' '))} H {esc(version.hash[:8])}</small>"
    counts = [str(summary.num_scored), str(summary.num_invalid)]
    if found is None or goals is None:
        return [label, "none scored", *["–"] * 9, *counts]
    wide = goals.goals_like_these
    extra = f"<small>like these {bracketed(wide)}</small>" if wide else ""
    powers = ", ".join(f"{p:.2f}<small>k = {k}</small>" for k, p in list(goals.pass_power.items())[-1:])
    return [
        label,
        f"<b>{found.effectiveness:.2f}</b><small>{bracketed(found.effectiveness_interval)}</small>{extra}",
        f"{found.p_achieved:.2f}<small>{bracketed(found.p_achieved_interval)}</small>",
        or_dash(goals.spl, "{:.2f}"),
        powers or "–",
        f"{found.mean_turns:.1f}",
        f"{found.mean_calls:.1f}",
        or_dash(found.mean_prompt_tokens, "{:,.0f}"),
        or_dash(found.mean_completion_tokens, "{:,.0f}"),
        or_dash(found.cached_share, "{:.0%}"),
        f"{found.mean_duration_s:.1f}",
        *counts,
    ]


def _by_goal(name: str, goals: GoalSet, prompts: dict[str, str]) -> str:
    if len(goals.by_goal) < 2:
        return ""
    rows = [
        [
            f"<b>{esc(goal)}</b><small>{esc(short(prompts.get(goal, ''), 70))}</small>",
            f"{n.effectiveness:.2f}<small>{bracketed(n.effectiveness_interval)}</small>",
            f"{n.p_achieved:.2f}<small>{bracketed(n.p_achieved_interval)}</small>",
            or_dash(n.spl, "{:.2f}"),
            ", ".join(f"{k}: {p:.2f}" for k, p in n.pass_power.items()),
            f"{n.mean_turns:.1f}",
            str(n.num_scored),
        ]
        for goal, n in goals.by_goal.items()
    ]
    inside = table(["goal", "E", "P", "SPL", "pass^k", "turns", "trials"], rows)
    asked = "" if goals.question == GOALS_LIKE_THESE else f'<p class="note">{esc(goals.question)}</p>'
    return f"<details><summary>{esc(name)}, goal by goal</summary>{asked}{inside}</details>"


def differences(differences: Sequence[Difference], names: dict[str, str]) -> str:
    parts = []
    for each in differences:
        d = each.decomposition
        parts.append(
            f"<h3>{esc(names[each.first])} − {esc(names[each.second])}: dE {d.difference:+.3f}</h3>"
            f"<p>{d.more_achieved:+.3f} comes of more goals achieved, {d.fewer_turns:+.3f} of fewer turns when achieved.</p>"
            + (f"<details><summary>The harnesses differ in</summary>{_diff(each.diff)}</details>" if each.diff else "")
        )
    note = '<p class="note">Differences of means, which may be chance: <code>daneel compare</code> tells whether they are.</p>'
    return "".join(parts) + note if parts else ""


def _diff(diff: str) -> str:
    kinds: dict[str, str] = {"+": "add", "-": "del"}
    lines = [f'<span class="{kinds.get(line[:1], "")}">{esc(line)}</span>' for line in diff.splitlines()]
    return '<pre class="diff">' + "\n".join(lines) + "</pre>"


def lost(report: Report, names: dict[str, str]) -> str:
    shown = {run.id for run in report.runs}
    parts = []
    for version in report.versions:
        lost = version.lost
        if lost is None or not lost.turns:
            continue
        rows = [
            [
                f"{key(f'cause-{loss.cause}')}{esc(IN_WORDS[loss.cause])}",
                str(loss.turns),
                f"{loss.turns / lost.trials:.2f}",
                str(loss.trials),
                f"{loss.cost:.3f}",
                links(loss.evidence, shown),
            ]
            for loss in lost.losses
        ]
        kept = [f"{key('cause-kept')}kept", str(lost.kept), f"{lost.kept / lost.trials:.2f}", str(lost.trials), "", ""]
        unread = f'<p class="note">{lost.unread} scored trials left no transcript.</p>' if lost.unread else ""
        parts.append(
            f"<h3>{esc(names[version.id])}: {sum(loss.turns for loss in lost.losses)} of {lost.turns} turns lost</h3>"
            + charts.lost_bar(version)
            + table(["", "turns", "a trial", "trials", "E", "see"], [kept, *rows])
            + unread
        )
    note = (
        '<p class="note">Each turn is kept, or lost to one cause. E: what it would gain if the turns of that cause alone were '
        "saved, and what failed still failed. Further steps brought something new; only a shorter way would save them.</p>"
    )
    return note + "".join(parts) if parts else ""
