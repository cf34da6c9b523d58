"""Transcripts in the report: one run as it went, turn by turn, each turn with what it was: a step, an answer, or lost."""

from __future__ import annotations

import json
from typing import Any

from daneel.bench.lost_turns import ANSWER, IN_WORDS, STEP
from daneel.bench.report.data import ShownRun
from daneel.bench.report.text import esc, short
from daneel.harness.run_record import Event

MAX_TEXT_CHARS = 4000
"""Of one message, thought or result."""
MAX_EVENTS = 1000
_SILENT = frozenset({"message", "peer", "context", "stop", "call"})


def run_html(run: ShownRun, version: str) -> str:
    """One run, folded."""
    verdict, kind = {True: ("achieved", "good"), False: ("not achieved", "bad"), None: ("not scored", "none")}[run.achieved]
    lost = sum(label not in (STEP, ANSWER) for label in run.labels.values())
    facts = [
        esc(version),
        esc(run.goal if len(run.goal) < 60 else "run"),
        f"{run.turns} turns",
        f"stopped: {esc(run.stop_reason)}",
    ]
    facts += [f"{lost} lost"] if lost else []
    why = f'<p class="note">Not scored: {esc(run.not_scored)}</p>' if run.not_scored else ""
    return (
        f'<details class="run" id="run-{esc(run.id)}"><summary><span class="chip {kind}">{verdict}</span> '
        f"{' · '.join(facts)} <code>{esc(run.id)}</code></summary>{why}{_turns(run)}</details>"
    )


def _turns(run: ShownRun) -> str:
    parts = [_said("user", run.prompt)]
    open_turn = 0
    for event in run.events[:MAX_EVENTS]:
        inside = _event(event)
        if not inside:
            continue
        if event.turn != open_turn and event.turn > 0:
            parts.append(("</section>" if open_turn else "") + _turn_head(run, event.turn))
            open_turn = event.turn
        parts.append(inside)
    parts.append("</section>" if open_turn else "")
    if len(run.events) > MAX_EVENTS:
        parts.append(f'<p class="note">{len(run.events) - MAX_EVENTS} more events; see them with the command below.</p>')
    parts.append(f'<p class="note"><code>daneel transcripts show {esc(run.id)}</code></p>')
    return "".join(parts)


def _turn_head(run: ShownRun, turn: int) -> str:
    label = run.labels.get(turn)
    said = (
        f'<span class="chip cause">lost: {esc(IN_WORDS.get(label, label))}</span>' if label not in (STEP, ANSWER, None) else ""
    )
    return f'<section class="turn" id="run-{esc(run.id)}-t{turn}"><h4>turn {turn} {said}</h4>'


def _event(event: Event) -> str:
    """One event; "" for those that say nothing more."""
    data = event.data
    if event.kind == "reply":
        return _reply(data.get("message"))
    if event.kind == "result":
        kind = "failed" if data.get("error") else "result"
        return _said(kind, data.get("result") if data.get("result") is not None else data.get("error"), data.get("name"))
    if event.kind == "told":
        return _said("failed", data.get("text"), f"{data.get('name') or 'call'} was not made")
    if event.kind == "request":
        refused = set(map(str, data.get("refused_tools") or ()))
        names = [f"({name})" if name in refused else str(name) for name in data.get("tools") or ()]
        return f'<p class="note">shown: {esc(", ".join(names) or "no tools")}</p>'
    if event.kind in _SILENT:
        return ""
    said = data.get("text") or data.get("detail") or data.get("error") or data.get("repair") or ""
    return f'<p class="note">{esc(event.kind.replace("_", " "))}: {esc(short(_plain(said), 600))}</p>'


def _reply(message: Any) -> str:
    if not isinstance(message, dict):
        return _said("model", "")
    parts = [_said("thoughts", message[name]) for name in ("reasoning", "reasoning_content") if message.get(name)]
    if message.get("content"):
        parts.append(_said("model", message["content"]))
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, dict) else None
        function = function if isinstance(function, dict) else {}
        parts.append(_said("call", f"{function.get('name')}({_plain(function.get('arguments') or '')})"))
    failed = message.get("failed_tool_calls") or ()
    parts += [_said("failed", call.get("raw") if isinstance(call, dict) else call, "could not be read") for call in failed]
    return "".join(parts) or '<p class="note">(an empty reply)</p>'


def _said(kind: str, value: Any, label: Any = None) -> str:
    said = esc(label if label is not None else kind)
    return f'<div class="said {kind}"><b>{said}</b><pre>{esc(short(_plain(value), MAX_TEXT_CHARS))}</pre></div>'


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
