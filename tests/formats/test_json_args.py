"""Call objects by declared keys: what is read, what is a repair, what is refused."""

from __future__ import annotations

import json

import pytest

from daneel.formats.json_args import KEYS, CallKeys, JsonCallScanner, JsonGrammar
from daneel.formats.scan import ScannedCall, ScannedFailure

COHERE = CallKeys(names=("tool_name", "name"), arguments=("parameters", "arguments"), ids=("tool_call_id", "id"))
BY_NAME = CallKeys(name_is_key=True)


def read(
    text: str, keys: CallKeys = KEYS, *, array: bool = False, step: int = 0
) -> tuple[JsonCallScanner, list[ScannedCall | ScannedFailure]]:
    scanner, at = JsonCallScanner(keys, array=array), 0
    for end in [*range(step, len(text), step or 1), len(text)] if step else [len(text)]:
        if not scanner.done and scanner.error is None:
            at += scanner.feed(text[at:end], 0)
    scanner.finish()
    return scanner, scanner.calls(text[:at]) if scanner.done else scanner.calls_so_far(text[:at])


@pytest.mark.parametrize("step", [0, 1, 3])
@pytest.mark.parametrize(
    ("keys", "array", "text", "call"),
    [
        (KEYS, False, '{"name": "f", "arguments": {"a": 1}}', ("f", '{"a": 1}', (), None)),
        (KEYS, False, '{"arguments": {"a": 1}, "name": "f"}', ("f", '{"a": 1}', (), None)),
        (KEYS, False, '{"name": "f", "parameters": {}}', ("f", "{}", ("parameters_key",), None)),
        (KEYS, False, '{"name": "f", "arguments": "{\\"a\\": 1}"}', ("f", '{"a": 1}', ("string_arguments",), None)),
        (KEYS, False, '{"name": "f", "arguments": {}, "why": "x"}', ("f", "{}", ("extra_keys",), None)),
        (KEYS, False, '{"type": "function", "name": "f", "arguments": {}, "id": "12"}', ("f", "{}", (), "12")),
        (KEYS, False, '[{"name": "f", "arguments": {}}]', ("f", "{}", ("array_body",), None)),
        (KEYS, True, '[{"name": "f", "arguments": {}}]', ("f", "{}", (), None)),
        (KEYS, True, '{"name": "f", "arguments": {}}', ("f", "{}", ("object_body",), None)),
        (COHERE, True, '[{"tool_call_id": "0", "tool_name": "f", "parameters": {}}]', ("f", "{}", (), "0")),
        (COHERE, True, '[{"name": "f", "arguments": {}}]', ("f", "{}", ("name_key", "arguments_key"), None)),
        (BY_NAME, True, '[{"f": {"name": "x", "arguments": {}}}]', ("f", '{"name": "x", "arguments": {}}', (), None)),
        (BY_NAME, True, '[{"name": {"a": 1}}]', ("name", '{"a": 1}', (), None)),
        (BY_NAME, True, '[{"name": "f", "arguments": {"a": 1}}]', ("f", '{"a": 1}', ("named_keys",), None)),
        (BY_NAME, True, '[{"f": "{}"}]', ("f", "{}", ("string_arguments",), None)),
        (BY_NAME, True, '[{"f": null}]', ("f", None, ("no_arguments",), None)),
        (KEYS, True, '[{"name": "f", "arguments": {}} <', ("f", "{}", ("missing_array_end",), None)),
    ],
)
def test_reads(
    keys: CallKeys, array: bool, text: str, call: tuple[str, str | None, tuple[str, ...], str | None], step: int
) -> None:
    scanner, items = read(text, keys, array=array, step=step)
    assert scanner.done
    (item,) = items
    assert isinstance(item, ScannedCall)
    assert (item.name, item.arguments, item.repairs, item.call_id) == call


@pytest.mark.parametrize(
    ("keys", "text", "message"),
    [
        (KEYS, '{"arguments": {}}', "'name'"),
        (KEYS, '{"name": 1, "arguments": {}}', "a string as 'name'"),
        (KEYS, '{"name": "", "arguments": {}}', "empty"),
        (KEYS, '{"name": "f", "arguments": [1]}', "expected an object"),
        (KEYS, '{"name": "f", "arguments": "[1]"}', "holds none"),
        (KEYS, '{"name": "f", "arguments": {}, "parameters": {}}', "both 'arguments' and 'parameters'"),
        (KEYS, '{"name": "f", "city": "x"}', "'arguments'"),
        (COHERE, '{"name": "f", "tool_name": "g", "parameters": {}}', "both 'tool_name' and 'name'"),
        (BY_NAME, '{"f": {}, "g": {}}', "one key"),
        (BY_NAME, "{}", "one key"),
        (BY_NAME, '{"f": [1]}', "expected an object"),
        (BY_NAME, '{"": {}}', "empty"),
    ],
)
def test_refuses(keys: CallKeys, text: str, message: str) -> None:
    scanner, items = read(text, keys)
    assert scanner.done
    (item,) = items
    assert isinstance(item, ScannedFailure)
    assert message in item.error.message
    assert 0 <= item.error.offset < len(text)


def test_objects_before_the_break_are_whole() -> None:
    first = '[{"name": "f", "arguments": {}}'
    scanner, items = read(first + ', {"name": "g", "arguments": {bad}}]')
    assert not scanner.done
    assert scanner.error is not None
    assert [(item.name, item.end) for item in items if isinstance(item, ScannedCall)] == [("f", len(first))]


@pytest.mark.parametrize("text", ["[", '[{"name": "f"', '[{"name": "f", "arguments": {}},', '{"name": "f", "arguments": {}'])
def test_what_is_cut_off_stays_open(text: str) -> None:
    scanner, _ = read(text)
    assert not scanner.done
    assert scanner.error is None


def test_an_item_that_is_no_object_is_no_end_of_the_array() -> None:
    scanner, _ = read('[{"name": "f", "arguments": {}}, 3]')
    assert not scanner.done
    assert scanner.error is not None


@pytest.mark.parametrize(
    ("grammar", "written"),
    [
        (JsonGrammar(), '{"name": "a\\"b", "arguments": {"{id}": 1}}'),
        (
            JsonGrammar(written='{"{id}": {name}, "a": {arguments}}', joints=("[\n", ";", "\n]"), id_size=3),
            '[\n{"000": "a\\"b", "a": {"{id}": 1}}\n]',
        ),
    ],
)
def test_writes_as_declared(grammar: JsonGrammar, written: str) -> None:
    assert grammar.write('a"b', '{"{id}": 1}') == written


def test_ids_count_up_in_one_body() -> None:
    grammar = JsonGrammar(written='{"id": "{id}", "name": {name}, "arguments": {arguments}}', joints=("[", ", ", "]"))
    calls = json.loads(grammar.write_several([("f", "{}"), ("g", "{}")]))
    assert [call["id"] for call in calls] == ["0", "1"]
