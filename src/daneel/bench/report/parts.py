"""Small pieces of HTML that the sections of the report share."""

from __future__ import annotations

from collections.abc import Sequence

from daneel.bench.effectiveness import Interval
from daneel.bench.finding import Evidence
from daneel.bench.report.text import esc


def key(kind: str) -> str:
    box = f'<rect width="10" height="10" rx="2" class="{kind}"/>'
    return f'<svg class="key" width="10" height="10" viewBox="0 0 10 10">{box}</svg>'


def links(evidence: Sequence[Evidence], shown: set[str]) -> str:
    """Links to turns that are in this file; the others by run and turn."""
    links = []
    for each in evidence:
        label = f"{esc(each.run_id[:10])} turn {each.turn}"
        target = f"run-{esc(each.run_id)}-t{each.turn}"
        links.append(f'<a href="#{target}">{label}</a>' if each.run_id in shown else f"<code>{label}</code>")
    return "<br>".join(links)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th>{esc(name)}</th>" for name in head)
    inside = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{top}</tr>{inside}</table></div>'


def bracketed(interval: Interval) -> str:
    return f"[{interval[0]:.2f}, {interval[1]:.2f}]"


def or_dash(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
