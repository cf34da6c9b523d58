"""The report as Markdown, for a pull request: numbers, what changed, turns lost, findings; no transcripts."""

from __future__ import annotations

from collections.abc import Sequence

from daneel.bench.effectiveness import Interval
from daneel.bench.goal_set import DESCRIPTIVE
from daneel.bench.lost_turns import IN_WORDS
from daneel.bench.report.data import Report, Version
from daneel.bench.report.numbers_html import MEANING
from daneel.bench.report.page import version_names
from daneel.bench.report.text import fenced, md, visible

MAX_FINDINGS = 12


def markdown(report: Report) -> str:
    """All of it, with a line's end at its end."""
    names = version_names(report.versions)
    measured = [version for version in report.versions if version.summary is not None]
    parts = [f"### daneel: {md(report.title)}"]
    if measured:
        parts += [md(MEANING), _numbers(measured, names), *_questions(measured)]
    parts += [part for part in (_differences(report, names), _lost(measured, names), _findings(report)) if part]
    return "\n\n".join(parts) + "\n"


def _numbers(versions: Sequence[Version], names: dict[str, str]) -> str:
    rows = []
    for version in versions:
        found, goals, summary = version.summary and version.summary.numbers, version.goals, version.summary
        assert summary is not None
        label = f"{md(names[version.id])} `{md(version.hash[:8])}`"
        if not found or goals is None:
            rows.append([label, "none scored", "", "", "", "", f"{summary.num_scored} / {summary.num_invalid}"])
            continue
        rows.append(
            [
                label,
                f"**{found.effectiveness:.2f}** {_bracketed(goals.goals_like_these or goals.these_goals)}",
                f"{found.p_achieved:.2f} {_bracketed(found.p_achieved_interval)}",
                f"{found.mean_turns:.1f}",
                f"{found.mean_calls:.1f}",
                "–" if goals.spl is None else f"{goals.spl:.2f}",
                f"{summary.num_scored} / {summary.num_invalid}",
            ]
        )
    return _table(["harness", "E", "P", "turns", "calls", "SPL", "trials / invalid"], rows)


def _questions(versions: Sequence[Version]) -> list[str]:
    questions = list(dict.fromkeys(version.goals.question for version in versions if version.goals))
    few = any(v.goals and v.goals.descriptive and len(v.goals.by_goal) > 1 for v in versions)
    return [" ".join([*questions, *([f"The mean over goals is {DESCRIPTIVE}."] if few else [])])] if questions else []


def _differences(report: Report, names: dict[str, str]) -> str:
    parts = []
    for each in report.differences:
        d = each.decomposition
        parts.append(
            f"**{md(names[each.first])} − {md(names[each.second])}**: dE {d.difference:+.3f} = {d.more_achieved:+.3f} more "
            f"goals achieved, {d.fewer_turns:+.3f} fewer turns when achieved"
        )
        if each.diff:
            parts.append(f"<details><summary>The harnesses differ in</summary>\n\n{fenced(each.diff, 'diff')}\n\n</details>")
    return "\n\n".join(parts)


def _lost(versions: Sequence[Version], names: dict[str, str]) -> str:
    told = [version for version in versions if version.lost is not None and version.lost.turns]
    causes = [
        cause
        for cause in IN_WORDS
        if any(version.lost and any(loss.cause == cause for loss in version.lost.losses) for version in told)
    ]
    rows = []
    for version in told:
        assert version.lost is not None
        by_cause = {loss.cause: loss.turns for loss in version.lost.losses}
        rows.append(
            [
                md(names[version.id]),
                str(version.lost.turns),
                str(version.lost.kept),
                *(str(by_cause.get(cause, 0)) for cause in causes),
            ]
        )
    return _table(["turns lost", "all", "kept", *(IN_WORDS[cause] for cause in causes)], rows) if rows and causes else ""


def _findings(report: Report) -> str:
    lines = []
    for finding in report.findings[:MAX_FINDINGS]:
        gain = "unknown" if finding.expected_gain.value is None else f"{finding.expected_gain.value:+.3f}"
        tools = ", ".join(finding.tools)
        lines.append(
            f"- **{md(finding.kind.replace('_', ' '))}** ({md(finding.harness)}: {md(tools)}): {md(finding.text)} "
            f"→ {md(finding.advice)} (gain in E {gain}; about {finding.trials_needed} trials to test it)"
        )
    more = len(report.findings) - MAX_FINDINGS
    if more > 0:
        lines.append(f"- and {more} more: `daneel diagnose {visible(report.title.split(',')[0])}`")
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


def _bracketed(interval: Interval) -> str:
    return f"\\[{interval[0]:.2f}, {interval[1]:.2f}\\]"
