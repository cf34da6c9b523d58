"""What a run looks like on a terminal."""

from __future__ import annotations

import unicodedata
from io import StringIO

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from daneel.cli.run_view import RunView, printable
from daneel.harness.run_record import Event
from daneel.wire.messages import Delta


@given(st.text())
def test_nothing_printable_controls_the_terminal(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert not any(unicodedata.category(char) == "Cc" for char in shown if char not in "\n\t")


def view() -> tuple[RunView, StringIO]:
    out = StringIO()
    return RunView(Console(file=out, width=40, highlight=False), streams=True), out


def test_streamed_pieces_are_not_wrapped_and_thoughts_end_in_a_line() -> None:
    shown, out = view()
    for delta in (Delta(reasoning="I th"), Delta(reasoning="ink."), Delta(content="word " * 20), Delta(content="[bold]end")):
        shown.on_delta(delta)
    shown.on_event(Event("reply", 1, {"message": {"content": "x"}}))
    assert out.getvalue() == "I think.\n" + "word " * 20 + "[bold]end\n"


def test_a_call_that_was_interrupted_shows_that_and_not_none() -> None:
    shown, out = view()
    shown.on_event(Event("result", 1, {"result": None, "error": "interrupted"}))
    assert out.getvalue() == "← interrupted\n"


def test_every_known_event_has_a_line() -> None:
    shown, out = view()
    shown.on_event(Event("call", 1, {"name": "f", "arguments": {"a": "ü", "n": 1}}))
    shown.on_event(Event("result", 1, {"result": "x" * 5000, "error": None}))
    shown.on_event(Event("announced_call", 1, {"names": ["f", "g"]}))
    shown.on_event(Event("unheard_of", 1, {}))
    lines = out.getvalue().splitlines()
    assert lines[0] == '→ f(a="ü", n=1)'
    assert lines[1].endswith("x …")
    assert len(lines[1]) < 2100
    assert lines[2:] == ["! announced, but not called: f, g; the model is asked to call"]
