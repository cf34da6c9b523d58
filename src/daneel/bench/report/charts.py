"""The report's charts, as inline SVG: intervals, histograms, a graph. Colours come from the page's style, by class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from daneel.bench.effectiveness import Interval
from daneel.bench.report.data import END, START, Version
from daneel.bench.report.text import esc, short

ROW_HEIGHT = 30
MAX_NODES = 14
MAX_EDGES = 40
MIN_EDGE_SHARE = 0.01
"""Of all steps from tool to tool; what is rarer is left out of the graph."""
_BEND, _LABEL_AT = 0.14, 0.3
_LABEL_WIDTH, _PLOT_WIDTH, _NUMBER_WIDTH = 250, 480, 150


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'aria-label="{esc(title)}"><title>{esc(title)}</title>{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: object, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{esc(text)}</text>'


def intervals(rows: Sequence[tuple[str, float, Interval]], title: str) -> str:
    """A row for each (name, E, interval), on an axis from 0 to 1."""
    left, height = _LABEL_WIDTH, ROW_HEIGHT * len(rows) + 34
    parts = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x = left + tick * _PLOT_WIDTH
        parts.append(f'<line x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="{height - 26}" class="grid"/>')
        parts.append(_text(x, height - 10, f"{tick:g}", "tick", "middle"))
    for number, (name, value, (low, high)) in enumerate(rows):
        y = ROW_HEIGHT * number + ROW_HEIGHT / 2 + 4
        x0, x, x1 = (left + each * _PLOT_WIDTH for each in (low, value, high))
        parts.append(_text(left - 14, y + 4, short(name, 34), "", "end"))
        parts.append(f'<line x1="{x0:.1f}" y1="{y}" x2="{x1:.1f}" y2="{y}" class="interval"/>')
        parts += [f'<line x1="{e:.1f}" y1="{y - 5}" x2="{e:.1f}" y2="{y + 5}" class="interval"/>' for e in (x0, x1)]
        parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="5" class="point"/>')
        parts.append(_text(left + _PLOT_WIDTH + 16, y + 4, f"{value:.2f} [{low:.2f}, {high:.2f}]", "number"))
    return _svg(left + _PLOT_WIDTH + _NUMBER_WIDTH, height, title, parts)


def turns_histogram(version: Version, max_turns: int, most: int) -> str:
    """Trials by number of turns; those that achieved the goal below, the others above. `most`: the scale's end."""
    bar, left, top, plot = 22, 34, 18, 110
    parts = [f'<line x1="{left}" y1="{top + plot}" x2="{left + bar * max_turns}" y2="{top + plot}" class="axis"/>']
    for turns in range(1, max_turns + 1):
        good, bad = version.turns.get(turns, (0, 0))
        x, y = left + bar * (turns - 1), float(top + plot)
        for count, kind in ((good, "good"), (bad, "bad")):
            size = plot * count / max(1, most)
            y -= size
            if count:
                said = f"{count} {'achieved' if kind == 'good' else 'not achieved'} in {turns} turns"
                parts.append(
                    f'<rect x="{x + 2}" y="{y:.1f}" width="{bar - 4}" height="{size:.1f}" class="{kind}">'
                    f"<title>{said}</title></rect>"
                )
        if good + bad:
            parts.append(_text(x + bar / 2, y - 3, good + bad, "tick", "middle"))
        if turns in (1, max_turns) or turns % 5 == 0 or max_turns <= 12:
            parts.append(_text(x + bar / 2, top + plot + 14, turns, "tick", "middle"))
    return _svg(left + bar * max_turns + 10, top + plot + 20, f"Turns of {version.harness}", parts)


def lost_bar(version: Version) -> str:
    """The turns of a version in one bar: kept, then each cause."""
    lost = version.lost
    if lost is None or not lost.turns:
        return ""
    width, x, parts = 640.0, 0.0, []
    for name, turns in [("kept", lost.kept), *((loss.cause, loss.turns) for loss in lost.losses)]:
        size = width * turns / lost.turns
        kind = f"cause-{name}"
        parts.append(
            f'<rect x="{x:.1f}" y="0" width="{max(size, 0.5):.1f}" height="18" class="{kind}">'
            f"<title>{esc(name)}: {turns}</title></rect>"
        )
        x += size
    return _svg(width, 18, f"Turns of {version.harness}, kept and lost", parts)


def succession_graph(version: Version) -> str:
    """Which tool comes after which: from the beginning, left, to the answer, right; edges are as wide as they are frequent."""
    names, edges, left_out = _graph(version)
    if not edges:
        return ""
    width, top, height = 860.0, 48.0, 168.0 + 54 * min(6, math.ceil(len(names) / 2))
    middle, radius = (top + height) / 2, (height - top) / 2 - 24
    places = {START: (60.0, middle), END: (width - 60, middle)}
    for number, name in enumerate(names):
        angle = math.pi + 2 * math.pi * (number + 0.5) / len(names)
        places[name] = (width / 2 + (width / 2 - 210) * math.cos(angle), middle + radius * math.sin(angle))
    most = max(count for _, _, count in edges)
    parts = [
        '<defs><marker id="arrow-' + version.id + '" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0.5 L8,4 L0,7.5 z" class="arrow"/></marker></defs>'
    ]
    labels = []
    for a, b, count in edges:
        path, (x, y) = _edge(_Node(a, *places[a]), _Node(b, *places[b]))
        stroke = 1 + 5 * count / most
        parts.append(
            f'<path d="{path}" class="edge" stroke-width="{stroke:.1f}" marker-end="url(#arrow-{version.id})">'
            f"<title>{esc(a)} → {esc(b)}: {count}</title></path>"
        )
        labels.append(_text(x, y + 3, count, "edge-label", "middle"))
    for name, (x, y) in places.items():
        half = _Node(name, x, y).half_width
        parts.append(f'<rect x="{x - half:.1f}" y="{y - 13:.1f}" width="{2 * half:.1f}" height="26" rx="13" class="node"/>')
        parts.append(_text(x, y + 4, _node_label(name), "node-label", "middle"))
    note = f'<p class="note">{left_out} rarer steps are left out.</p>' if left_out else ""
    return _svg(width, height, f"Which tool follows which in {version.harness}", parts + labels) + note


def _graph(version: Version) -> tuple[list[str], list[tuple[str, str, int]], int]:
    """Nodes but for both ends, edges, and how many steps are left out."""
    total = sum(count for _, _, count in version.successions)
    by_calls = sorted(version.tools, key=lambda name: -version.tools[name].calls)
    names = [name for name in by_calls if version.tools[name].calls][:MAX_NODES]
    known = {START, END, *names}
    kept = [
        (a, b, count) for a, b, count in version.successions if a in known and b in known and count >= MIN_EDGE_SHARE * total
    ][:MAX_EDGES]
    return names, kept, total - sum(count for _, _, count in kept)


@dataclass(frozen=True)
class _Node:
    name: str
    x: float
    y: float

    @property
    def half_width(self) -> float:
        return 4.2 * len(_node_label(self.name)) + 10

    def border(self, to_x: float, to_y: float) -> tuple[float, float]:
        """Where a line from its middle to that point leaves it, and a little further."""
        dx, dy = to_x - self.x, to_y - self.y
        scale = min((self.half_width + 2) / abs(dx) if dx else math.inf, 15 / abs(dy) if dy else math.inf, 1.0)
        return self.x + scale * dx, self.y + scale * dy


def _node_label(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def _edge(start: _Node, end: _Node) -> tuple[str, tuple[float, float]]:
    """The path of an edge, curved so that there and back do not lie on each other, and where its label goes: near its start."""
    x0, y0, x1, y1 = start.x, start.y, end.x, end.y
    if start.name == end.name:
        up = y0 - 52
        path = f"M{x0 - 14:.1f},{y0 - 13:.1f} C{x0 - 40:.1f},{up:.1f} {x0 + 40:.1f},{up:.1f} {x0 + 14:.1f},{y0 - 15:.1f}"
        return path, (x0, y0 - 43)
    mx, my = (x0 + x1) / 2 + _BEND * (y1 - y0), (y0 + y1) / 2 - _BEND * (x1 - x0)
    (sx, sy), (ex, ey) = start.border(mx, my), end.border(mx, my)
    a, b, c = (1 - _LABEL_AT) ** 2, 2 * _LABEL_AT * (1 - _LABEL_AT), _LABEL_AT**2
    return f"M{sx:.1f},{sy:.1f} Q{mx:.1f},{my:.1f} {ex:.1f},{ey:.1f}", (a * sx + b * mx + c * ex, a * sy + b * my + c * ey)
