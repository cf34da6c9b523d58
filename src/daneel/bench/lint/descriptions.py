"""Descriptions of tools that say nothing, or something else than the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from daneel.bench.lint.meaning import split_words

_PLACEHOLDER = re.compile(
    r"\W*(?:todo|tbd|fixme|xxx+|wip|n/?a|none|null|undefined|unknown|desc|placeholder|lorem ipsum\b.*|a tool|tool|function|"
    r"to be (?:done|written|defined)|(?:(?:add|insert|write) )?(?:a )?description(?: here)?|\.{3}|…)?\W*\Z",
    re.IGNORECASE | re.DOTALL,
)
_STARTS_TODO = re.compile(r"\W*(?:todo|tbd|fixme)\b", re.IGNORECASE)
_NO_ARGUMENTS = re.compile(
    r"\b(?:takes|needs|requires|has|expects|with) no (?:arguments?|parameters?|inputs?)"
    r"|\bno (?:arguments?|parameters?) (?:is |are )?(?:needed|required|taken)",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?:\b(?:argument|parameter|arg|param)s?\s+[`'\"]?([A-Za-z_]\w*)[`'\"]?|[`'\"]([A-Za-z_]\w*)[`'\"]\s+(?:argument|parameter|arg|param)\b)",
)
_FIELD_LINE = re.compile(r"^\s*(?::param\s+(?:\w+\s+)?|[-*]\s*`?|`)([A-Za-z_]\w*)`?\s*(?:\([^)]*\))?\s*:", re.MULTILINE)
_OPTIONAL = re.compile(r"\b(?:is |are )?optional\b|\bmay be (?:left out|omitted)\b", re.IGNORECASE)
_REQUIRED = re.compile(r"\b(?:is |are )?(?:required|mandatory)\b|\bmust be given\b", re.IGNORECASE)
_NOT = re.compile(r"\b(?:not|non|never|no longer)[\s-]+(?:\w+\s+)?$", re.IGNORECASE)
_DEFAULT = re.compile(r"\b(?:default(?:s to| is|:)?)\s*[`'\"(]?(-?\d+(?:\.\d+)?|true|false|none|null)\b", re.IGNORECASE)
_TYPES = {
    "integer": re.compile(r"^\W*(?:an? )?(?:string|text|list|array|object|boolean)\b", re.IGNORECASE),
    "number": re.compile(r"^\W*(?:an? )?(?:string|text|list|array|object|boolean)\b", re.IGNORECASE),
    "boolean": re.compile(r"^\W*(?:an? )?(?:string|text|list|array|object|integer|number)\b", re.IGNORECASE),
    "array": re.compile(r"^\W*(?:an? )?(?:string|integer|boolean|number)\b(?! of)", re.IGNORECASE),
}


def nothing_said(name: str, description: str) -> str | None:
    """How a description says nothing: `is empty`, `is a placeholder`, `repeats the name`; None where it says something."""
    text = description.strip()
    if not text:
        return "is empty"
    if _PLACEHOLDER.match(text) or _STARTS_TODO.match(text):
        return f"is a placeholder: {text[:60]!r}"
    if " " not in text and split_words(text) == split_words(name):
        return f"only repeats the name: {text[:60]!r}"
    return None


def contradictions(function: dict[str, Any]) -> Iterator[str]:
    """In words, what a tool's description, or a parameter's, says otherwise than the schema."""
    parameters = function.get("parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    properties = parameters.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = set(parameters.get("required") or ())
    text = str(function.get("description") or "")
    if properties and _NO_ARGUMENTS.search(text):
        yield f"it says that there are no arguments, but the schema has {', '.join(properties)}"
    for named in dict.fromkeys(_mentioned(text)):
        if named not in properties:
            known = ", ".join(properties) or "none"
            yield f"it names an argument {named!r} that the schema does not have (it has: {known})"
    for name, schema in properties.items():
        if isinstance(schema, dict):
            yield from _of_parameter(str(name), schema, is_required=name in required)


def _mentioned(text: str) -> Iterator[str]:
    for match in _NAMED.finditer(text):
        name = match[1] or match[2]
        quoted = match[2] is not None or text[match.start(1) - 1] in "`'\""
        if quoted or ("_" in name):
            yield name
    for match in _FIELD_LINE.finditer(text):
        if match[0].lstrip().startswith((":param", "`")) or "`" in match[0]:
            yield match[1]


def _of_parameter(name: str, schema: dict[str, Any], *, is_required: bool) -> Iterator[str]:
    text = str(schema.get("description") or "")
    if not text:
        return
    if is_required and _says(_OPTIONAL, text):
        yield f"{name} is called optional, but the schema requires it"
    if not is_required and _says(_REQUIRED, text) and not _says(_OPTIONAL, text):
        yield f"{name} is called required, but the schema does not require it"
    said = _DEFAULT.search(text)
    if said is not None and "default" in schema and not _same(said[1], schema["default"]):
        yield f"{name} is said to default to {said[1]}, but the schema says {schema['default']!r}"
    kind = schema.get("type")
    wrong = _TYPES.get(kind) if isinstance(kind, str) else None
    if wrong is not None and (found := wrong.match(text)):
        yield f"{name} is described as {found[0].strip()!r}, but the schema says {kind}"


def _says(pattern: re.Pattern[str], text: str) -> bool:
    """Whether it is said, and not denied."""
    return any(not _NOT.search(text[max(0, match.start() - 20) : match.start()]) for match in pattern.finditer(text))


def _same(said: str, default: Any) -> bool:
    lowered = said.lower()
    if isinstance(default, bool):
        return lowered == str(default).lower()
    if isinstance(default, int | float):
        try:
            return float(said) == float(default)
        except ValueError:
            return False
    return True
