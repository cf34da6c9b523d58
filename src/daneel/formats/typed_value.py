"""Values that the wire writes as bare text, read by the type that the tool's schema gives them.

XML-like formats write `<parameter=n>5</parameter>` whether 5 is a number or text: only the schema knows. A string is the
text as it stands. Where the schema wants something else the text is read as JSON, or as the Python literal that models write
in its place (`True`, `None`, `{'a': 1}`); text that is neither stays a string, for the schema check to flag. Of a union, the
first branch that the value satisfies counts, with null, objects and arrays before strings. An undeclared parameter is text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from daneel.formats.json_scan import WHITE, JsonScanner
from daneel.formats.python_literal import literal_as_json

KINDS = ("null", "object", "array", "integer", "number", "boolean", "string")
"""The types of JSON Schema, in the order in which a value of any type is tried."""

_EAGER = ("null", "object", "array")
_MAX_STEPS = 64
_NOTES = {"type", "title", "description", "default", "examples", "$defs", "definitions"}
_DEFINITIONS = ("$defs", "definitions")

Schema = dict[str, Any]


def read_typed(text: str, schema: Schema | None) -> str:
    """The JSON text of a value that the wire writes as `text`. `schema` is the argument's, `None` if it is not declared."""
    if schema is None:
        return _string(text)
    branches = _branches(schema)
    if all(branch["type"] == "string" for branch in branches):
        return _string(text)
    literal = _literal(text)
    if literal is None:
        return _string(text)
    kind, value = literal
    matching = [branch for branch in branches if branch["type"] == "string" or _fits(kind, branch["type"])]
    for branch in matching:
        candidate = _string(text) if branch["type"] == "string" else value
        if _valid(candidate, branch, schema):
            return candidate
    if matching:
        return _string(text) if matching[0]["type"] == "string" else value
    return value


def kinds_of(schema: Schema | None) -> tuple[str, ...]:
    """The types a value may have, in the order in which they are tried; only `string` when nothing is known."""
    if schema is None:
        return ("string",)
    return tuple(dict.fromkeys(branch["type"] for branch in _branches(schema)))


def argument_schema(schema: Schema | None, key: str) -> Schema | None:
    """The schema of the property `key`, with the definitions its references need; `None` if it is not declared."""
    found = [item for part in _parts(schema) if (item := _property(part, key)) is not None]
    return _with_definitions(found, schema)


def item_schema(schema: Schema | None) -> Schema | None:
    """The schema of an array's items; `None` if it is not declared."""
    found = [item for part in _parts(schema) if (item := _as_schema(part.get("items"))) is not None]
    return _with_definitions(found, schema)


# -- looking things up in a schema --------------------------------------------------------------------------------------


def _parts(schema: Schema | None) -> Iterator[Schema]:
    """The schema and those it combines, references followed. Their number is limited, as references may go in circles."""
    todo: list[Any] = [schema]
    steps = 0
    while todo and steps < _MAX_STEPS:
        part = todo.pop(0)
        steps += 1
        if not isinstance(part, dict) or schema is None:
            continue
        yield part
        todo += [item for word in ("anyOf", "oneOf", "allOf") if isinstance(part.get(word), list) for item in part[word]]
        if isinstance(part.get("$ref"), str):
            todo.append(_target(part["$ref"], schema))


def _target(reference: str, root: Schema) -> Any:
    """What a reference within the schema points at."""
    if not reference.startswith("#"):
        return None
    found: Any = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _property(part: Schema, key: str) -> Schema | None:
    properties = part.get("properties")
    if isinstance(properties, dict) and key in properties:
        return _as_schema(properties[key])
    others = part.get("additionalProperties")
    return others if isinstance(others, dict) else None


def _as_schema(item: Any) -> Schema | None:
    """`true` is the schema that admits anything."""
    if isinstance(item, dict):
        return item
    return {} if item is True else None


def _with_definitions(found: list[Schema], root: Schema | None) -> Schema | None:
    if not found:
        return None
    definitions = {word: root[word] for word in _DEFINITIONS if root is not None and word in root}
    return {**definitions, **(found[0] if len(found) == 1 else {"anyOf": found})}


# -- which types a value may have ---------------------------------------------------------------------------------------


def _branches(schema: Schema) -> list[Schema]:
    """The schema's alternatives, each with one type, in the order in which they are tried."""
    found = list(_alternatives(schema, schema, _MAX_STEPS))
    return sorted(found, key=lambda branch: branch["type"] not in _EAGER) or [{"type": "string"}]


def _alternatives(schema: Any, root: Schema, depth: int) -> Iterator[Schema]:
    if not isinstance(schema, dict) or depth <= 0:
        yield from _of_kinds({}, KINDS)
        return
    if isinstance(schema.get("$ref"), str):
        yield from _alternatives(_target(schema["$ref"], root), root, depth // 2)
        return
    for word in ("anyOf", "oneOf"):
        items = schema.get(word)
        if isinstance(items, list) and items and "type" not in schema:
            for item in items:
                yield from _alternatives(item, root, depth // 2)
            return
    parts = schema.get("allOf")
    if isinstance(parts, list) and parts and "type" not in schema:
        yield from _common([list(_alternatives(item, root, depth // 2)) for item in parts])
        return
    yield from _of_kinds(schema, _types(schema))


def _common(parts: list[list[Schema]]) -> Iterator[Schema]:
    """The alternatives of the first part whose type all parts admit."""
    for branch in parts[0]:
        others = [next((item for item in part if _fits(branch["type"], item["type"])), None) for part in parts[1:]]
        if all(item is not None for item in others):
            yield branch


def _of_kinds(schema: Schema, kinds: tuple[str, ...]) -> Iterator[Schema]:
    for kind in kinds:
        yield {**schema, "type": kind}


def _types(schema: Schema) -> tuple[str, ...]:
    given = schema.get("type")
    names = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    known = tuple(name for name in names if name in KINDS)
    if known:
        return known
    if "properties" in schema:
        return ("object",)
    if "items" in schema:
        return ("array",)
    values = _allowed_values(schema)
    if values:
        kinds = {_kind_of(value) for value in values}
        # a text among the values is written as it stands: it is tried first, so that "5" stays one of "5" and "6"
        return tuple(sorted(kinds, key=lambda kind: kind != "string"))
    return KINDS


def _allowed_values(schema: Schema) -> list[Any]:
    values = schema.get("enum")
    if isinstance(values, list):
        return values
    return [schema["const"]] if "const" in schema else []


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kind, types in (("integer", int), ("number", float), ("string", str), ("array", list)):
        if isinstance(value, types):
            return kind
    return "object"


# -- reading ------------------------------------------------------------------------------------------------------------


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _literal(text: str) -> tuple[str, str] | None:
    """The kind and JSON text of the value other than a string that `text` is, in JSON or Python."""
    bare = text.strip(WHITE)
    if not bare or bare[0] in "\"'":
        return None
    scanner = JsonScanner()
    end = scanner.feed(bare, 0)
    # a number may go on, so only what follows it completes it
    if not scanner.done and scanner.error is None:
        scanner.feed(" ", 0)
    value = bare if scanner.done and scanner.error is None and end == len(bare) else literal_as_json(bare)
    if value is None or value[0] == '"':
        return None
    kinds = {"n": "null", "t": "boolean", "f": "boolean", "{": "object", "[": "array"}
    return kinds.get(value[0]) or ("integer" if value.lstrip("-").isdigit() else "number"), value


def _fits(kind: str, wanted: str) -> bool:
    """Whether a value of that kind may be of the type wanted. 5.0 may be an integer: its value tells."""
    numbers = ("integer", "number")
    return kind == wanted or (kind in numbers and wanted in numbers)


def _valid(value: str, branch: Schema, root: Schema) -> bool:
    """Whether the value satisfies this alternative; its type fits already."""
    if branch["type"] != "integer" and not branch.keys() - _NOTES:
        return True
    definitions = {word: root[word] for word in _DEFINITIONS if word in root}
    try:
        return bool(jsonschema_rs.is_valid({**definitions, **branch}, json.loads(value), retriever=_refuse))
    except (ValueError, RecursionError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return True


def _refuse(uri: str) -> Any:
    raise ValueError(f"references outside the schema are not followed ({uri[:80]})")
