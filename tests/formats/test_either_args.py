"""Two ways to write a call between the same markers."""

from __future__ import annotations

import pytest

from daneel.formats.either_args import EitherGrammar
from daneel.formats.json_args import JsonGrammar
from daneel.formats.named_json import NamedJsonGrammar
from daneel.formats.scan import KeepsCalls, ScannedCall
from daneel.formats.validate import ToolSet

ARRAY = JsonGrammar(joints=("[", ", ", "]"))
NAMED = NamedJsonGrammar(written="{name}[A]{arguments}", heads=("{name}[A]",))
GRAMMARS = (EitherGrammar(ARRAY, NAMED), EitherGrammar(NAMED, ARRAY))


@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize(
    "text", ['f[A]{"a": 1}', '[{"name": "f", "arguments": {"a": 1}}]', ' \n{"name": "f", "arguments": {"a": 1}}']
)
def test_reads_both(grammar: EitherGrammar, text: str) -> None:
    scanner, at = grammar.scanner(ToolSet(None)), 0
    assert grammar.head(text, 0) == "yes"
    for end in range(1, len(text) + 1):
        at += scanner.feed(text[at:end], 0)
    assert scanner.done
    assert at == len(text)
    (call,) = scanner.calls(text)
    assert isinstance(call, ScannedCall)
    assert (call.name, call.arguments) == ("f", '{"a": 1}')


def test_writes_the_first() -> None:
    first, second = GRAMMARS
    assert first.write("f", "{}") == '[{"name": "f", "arguments": {}}]'
    assert first.holds_several
    assert second.write("f", "{}") == "f[A]{}"
    assert not second.holds_several


@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize(("text", "head"), [("", "more"), ("  ", "more"), ("f", "more"), ("It is", "no"), ("f, g", "no")])
def test_nothing_is_chosen_before_it_shows(grammar: EitherGrammar, text: str, head: str) -> None:
    assert grammar.head(text, 0) == head
    scanner = grammar.scanner(ToolSet(None))
    assert scanner.feed(text, 0) == 0
    scanner.finish()
    assert not scanner.done
    assert scanner.error is None
    assert scanner.name is None
    assert scanner.expected == grammar.expected_head


def test_whole_calls_before_a_break_are_kept() -> None:
    scanner = GRAMMARS[1].scanner(ToolSet(None))
    text = '[{"name": "f", "arguments": {}}, {bad}]'
    scanner.feed(text, 0)
    assert scanner.error is not None
    assert isinstance(scanner, KeepsCalls)
    assert [call.name for call in scanner.calls_so_far(text)] == ["f"]
