"""A run on the terminal, as it happens: thoughts dim, the answer plain, calls and results as arrows, repairs marked.

Nothing a model or a tool writes can move the cursor or set colours: control characters are shown, not sent.
"""

from __future__ import annotations

import json
import re
from typing import Any

from rich.console import Console
from rich.text import Text

from daneel.harness.run_record import Event, Run

SHOWN_CHARS = 2000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` with control characters and changes of writing direction made visible."""
    return _CONTROL.sub(lambda match: chr(0x2400 + ord(match[0])) if ord(match[0]) < 0x20 else "\ufffd", text)


class RunView:
    """An observer that prints. `streams`: replies come in pieces through `on_delta`; else each comes whole, in its event.

    `shown_chars`: of a longer call or result only the beginning is shown.
    """

    def __init__(self, console: Console, *, streams: bool, shown_chars: int | None = SHOWN_CHARS) -> None:
        self._console = console
        self._shown_chars = shown_chars
        self._streams = streams
        self._open_line = False
        self._last_kind = ""

    @property
    def console(self) -> Console:
        """Where it prints, for whoever speaks to the same person. What is begun there is ended first."""
        self._end_line()
        return self._console

    def on_delta(self, delta: Any) -> None:
        for kind, text in (("reasoning", delta.reasoning), ("content", delta.content)):
            if text:
                self._piece(kind, text)

    def _piece(self, kind: str, text: str) -> None:
        if kind != self._last_kind:
            self._end_line()
        self._last_kind = kind
        self._console.print(Text(printable(text), style="dim" if kind == "reasoning" else ""), end="", soft_wrap=True)
        self._open_line = not text.endswith("\n")

    def on_event(self, event: Event) -> None:
        data = event.data
        if event.kind == "reply":
            self._reply(data["message"])
        elif event.kind == "call":
            self._line(f"→ {data['name']}({_arguments(data['arguments'])})", "cyan")
        elif event.kind == "result":
            shown = data["result"] if data["result"] is not None else data["error"]  # a call that Ctrl-C ended has no result
            self._line(f"← {shown}", "red" if data["error"] else "green")
        elif event.kind in _NOTES:
            self._line("! " + _NOTES[event.kind].format_map(_Shown(data)), "yellow")

    def _reply(self, message: dict[str, Any]) -> None:
        if not self._streams:
            for kind in ("reasoning", "content"):
                if message.get(kind):
                    self._piece(kind, message[kind])
        self._end_line()
        self._last_kind = ""

    def _line(self, text: str, style: str) -> None:
        self._end_line()
        limit = self._shown_chars
        shown = printable(text if limit is None or len(text) <= limit else text[:limit] + " …")
        self._console.print(Text(shown, style=style), soft_wrap=True)

    def _end_line(self) -> None:
        if self._open_line:
            self._console.print()
            self._open_line = False

    def finish(self, run: Run, *, verdict: str | None) -> None:
        """The last lines: why it stopped, what it took, and what the goal's check says."""
        self._end_line()
        made = sum(call.result is not None for call in run.calls) + run.dropped.get("made_calls", 0)
        took = (
            f"{_counted(run.turns, 'turn')}, {_counted(made, 'call')}, {run.usage.total_tokens} tokens, {run.duration_s:.1f} s"
        )
        self._console.print(Text(f"{run.stop_reason}: {took}", style="dim"), soft_wrap=True)
        if run.detail and run.stop_reason != "answered":
            self._console.print(Text(printable(run.detail), style="yellow"), soft_wrap=True)
        if verdict:
            self._console.print(Text(printable(verdict), style="bold"), soft_wrap=True)


_NOTES = {
    "repaired": "repaired ({repair}): {before}",
    "text_call": "a call written as text: {raw}",
    "server_profile": "as daneel doctor has found: {effects}",
    "told": "call not made, the model is told: {error}",
    "detected": "{detector} ({grade}): {detail}",
    "empty_reply": "the reply was empty; the model is asked again",
    "truncated_reply": "the reply was cut off; the model is asked again",
    "announced_call": "announced, but not called: {names}; the model is asked to call",
    "last_turn": "last turn: the model is asked to answer with what it has",
    "failed_over": "{server} does not answer ({error}); {to} does, with the model {model}",
    "warning": "{field} was {action}: {detail}",
    "only_thoughts": "thoughts and no answer; the model is asked to answer",
    "truncated_thought": "the thoughts were cut off; the model is asked to answer",
    "repeating_reply": "the reply only repeated itself and was ended; the model is asked to answer",
    "continued": "the reply was cut off; the server is asked to go on with it",
    "result_style": "results go as plain messages: models like {model} finish with them",
    "changes_refused": "the server does not take {changes}; asked without",
    "resumed": "resumed after turn {after_turns}",
    "rerun": "{name} had begun when the run was cut short; it is called again",
    "unknown_outcome": "{name} had begun when the run was cut short; the model is told that nobody knows what came of it",
    "compacted": "the conversation was made shorter ({tiers}): about {before_tokens} tokens before, {after_tokens} now",
    "summary_failed": "old turns could not be summarised: {error}",
    "request_failed": "the request failed: {message}",
    "transcript_failed": "the transcript cannot be written: {error}; the run goes on without it",
}


class _Shown(dict[str, Any]):
    """Event data for a sentence: lists joined, long texts cut, absent fields empty."""

    def __missing__(self, key: str) -> str:
        return ""

    def __getitem__(self, key: str) -> Any:
        value = self.get(key, "")
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        return text if len(text) <= 200 else text[:199] + "…"


def _arguments(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
