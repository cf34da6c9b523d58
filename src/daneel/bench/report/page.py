"""The report as one HTML file: self-contained, no script, nothing fetched, all text of models and tools escaped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from daneel import __version__
from daneel.bench.finding import Finding
from daneel.bench.report import charts
from daneel.bench.report.data import Report, ToolUse, Version
from daneel.bench.report.numbers_html import differences, effectiveness, lost
from daneel.bench.report.parts import key, links
from daneel.bench.report.style import CONTENT_POLICY, CSS
from daneel.bench.report.text import esc, short
from daneel.bench.report.transcripts import run_html

MAX_PROMPT_CHARS = 300
MAX_HISTOGRAM_TURNS = 40


def page(report: Report, *, now: datetime | None = None) -> str:
    """The whole file. `now`: when it says that it was made."""
    names = version_names(report.versions)
    sections: list[tuple[str, str, str]] = [
        ("effectiveness", "Effectiveness", effectiveness(report, names)),
        ("differences", "What changed", differences(report.differences, names)),
        ("lost", "Turns lost", lost(report, names)),
        ("turns", "Turns", _turns(report.versions, names)),
        ("tools", "Tools", _tools(report.versions, names)),
        ("succession", "Which tool follows which", _successions(report.versions, names)),
        ("findings", "Findings", _findings(report, {run.id for run in report.runs})),
        ("transcripts", "Transcripts", _transcripts(report, names)),
    ]
    shown = [each for each in sections if each[2]]
    contents = "".join(f'<a href="#{id_}">{title}</a>' for id_, title, _ in shown)
    body = "".join(f'<h2 id="{id_}">{title}</h2>{inside}' for id_, title, inside in shown)
    made = (now or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC")
    title = esc(short(report.title, 120))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer">'
        f"<title>daneel: {title}</title><style>{CSS}</style></head><body><h1>Report of {title}</h1>"
        f'<p class="note">{_about(report)} Made {made} by daneel {esc(__version__)}.</p><nav>{contents}</nav>{body}'
        "</body></html>\n"
    )


def version_names(versions: Sequence[Version]) -> dict[str, str]:
    """A name for each version by its id: the harness's, with its measurement where that does not tell them apart."""
    counts = [version.harness for version in versions]
    return {
        version.id: version.harness
        if counts.count(version.harness) == 1
        else f"{version.harness} · {version.measurement or 'single runs'}"
        for version in versions
    }


def _about(report: Report) -> str:
    runs = sum(version.num_runs for version in report.versions)
    models = sorted({version.model for version in report.versions if version.model})
    on = f" on {esc(', '.join(models))}" if models else ""
    return f"{_counted(runs, 'run')}{on}, {_counted(len(report.goals), 'goal')}."


def _turns(versions: Sequence[Version], names: dict[str, str]) -> str:
    counted = [version for version in versions if version.turns]
    if not counted:
        return ""
    max_turns = min(MAX_HISTOGRAM_TURNS, max(max(version.turns) for version in counted))
    most = max(sum(pair) for version in counted for pair in version.turns.values())
    figures = [
        f"<figure><figcaption>{esc(names[v.id])}</figcaption>{charts.turns_histogram(v, max_turns, most)}</figure>"
        for v in counted
    ]
    legend = f'<p class="note">{key("good")}achieved &nbsp; {key("bad")}not achieved; trials by their number of turns.</p>'
    longer = sum(sum(pair) for v in counted for turns, pair in v.turns.items() if turns > max_turns)
    more = f'<p class="note">{longer} trials took more turns than are drawn.</p>' if longer else ""
    return f'{legend}<div class="grid-2">{"".join(figures)}</div>{more}'


def _tools(versions: Sequence[Version], names: dict[str, str]) -> str:
    tools = list(dict.fromkeys(name for version in versions for name in version.tools))
    if not tools:
        return ""
    head = "".join(f"<th>{esc(names[version.id])}</th>" for version in versions)
    rows = []
    for tool in tools:
        cells = "".join(_tool_cell(version.tools.get(tool), version.num_runs) for version in versions)
        rows.append(f"<tr><td><code>{esc(tool)}</code></td>{cells}</tr>")
    note = '<p class="note">Calls a run; below, the share that failed or was refused. “·”: not a tool of this harness.</p>'
    return f'{note}<div class="scroll"><table class="matrix"><tr><th></th>{head}</tr>{"".join(rows)}</table></div>'


def _tool_cell(use: ToolUse | None, num_runs: int) -> str:
    if use is None:
        return '<td class="never">·</td>'
    if not use.calls:
        said = "never called" if use.shown_turns else "never shown"
        return f'<td class="never">0<small>{said}</small></td>'
    rate = use.calls / max(1, num_runs)
    level = 1 + (rate >= 0.5) + (rate >= 1) + (rate >= 2)
    failed = f"<small>{use.failed / use.calls:.0%} failed</small>" if use.failed else "<small>&nbsp;</small>"
    return f'<td class="q{level}" title="{use.calls} calls in {use.runs} runs">{rate:.2f}{failed}</td>'


def _successions(versions: Sequence[Version], names: dict[str, str]) -> str:
    graphs = [(names[version.id], charts.succession_graph(version)) for version in versions]
    drawn = [(name, graph) for name, graph in graphs if graph]
    note = '<p class="note">How often a call of one tool came right after one of another, over all runs.</p>'
    parts = [
        f"<details{'' if number else ' open'}><summary>{esc(name)}</summary>{graph}</details>"
        for number, (name, graph) in enumerate(drawn)
    ]
    return note + "".join(parts) if parts else ""


def _findings(report: Report, shown: set[str]) -> str:
    parts = [_finding(finding, shown) for finding in report.findings]
    note = f'<p class="note">From these runs; no model judged anything. Tokens: {esc(report.tokens)}.</p>'
    return note + "".join(parts) if parts else ""


def _finding(finding: Finding, shown: set[str]) -> str:
    gain = finding.expected_gain
    told = "unknown" if gain.value is None else f"{gain.value:+.3f}"
    tested = f" p {finding.p:.2g}, corrected for the number of tests." if finding.p is not None else ""
    places = links(finding.evidence[:3], shown)
    return (
        f'<div class="finding"><h3>{esc(finding.kind.replace("_", " "))}: {esc(", ".join(finding.tools))} '
        f'<span class="chip">{esc(finding.harness)}</span></h3><p>{esc(finding.text)}</p><p>→ {esc(finding.advice)}</p>'
        f'<p class="note">Expected gain in E: {told} ({esc(gain.how)}).{tested} '
        f"About {finding.trials_needed} trials to test it.</p><p>{places}</p></div>"
    )


def _transcripts(report: Report, names: dict[str, str]) -> str:
    if not report.runs:
        return ""
    prompts = "".join(
        f"<p><b>{esc(goal)}</b>: {esc(short(prompt, MAX_PROMPT_CHARS))}</p>"
        for goal, prompt in report.goals.items()
        if goal != prompt
    )
    left_out = (
        f'<p class="note">{report.num_left_out} more runs are counted and not shown here.</p>' if report.num_left_out else ""
    )
    return prompts + left_out + "".join(run_html(run, names[run.version]) for run in report.runs)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
