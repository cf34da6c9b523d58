"""Results that are JSON objects, told as a sentence. A template is filled in by name only: it can call and reach nothing."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

from daneel.errors import UserError
from daneel.harness.tools.registry import Tool, result_text

_FIELD = re.compile(r"\{([^{}]*)\}")
MAX_TEMPLATE_CHARS = 1000
MAX_FIELDS = 8


def told_as_sentence(tool: Tool, template: str) -> Tool:
    """`tool` with such results. Raises `UserError` for a template without fields, or too long."""
    fields = _FIELD.findall(template)
    if not fields or len(template) > MAX_TEMPLATE_CHARS:
        raise UserError(f"a template has a {{field}} at least, and {MAX_TEMPLATE_CHARS} characters at most: {template[:100]!r}")
    inner = tool.render

    def render(result: Any, arguments: dict[str, Any]) -> str:
        said = result_text(result if inner is None else inner(result, arguments))
        return sentence(template, said) or said

    # the template is part of what the tool does, and so of its source: hashes see nothing but that
    source = f"{tool.source}\n# results as: {json.dumps(template, ensure_ascii=False)}"
    return dataclasses.replace(tool, render=render, source=source)


def sentence(template: str, text: str) -> str | None:
    """The result's text as a sentence; `None` where it is no object with exactly the template's fields, and stays as it is."""
    found = dict(leaves_of(text))
    if set(found) != set(_FIELD.findall(template)):
        return None
    return _FIELD.sub(lambda match: found[match[1]], template)


def template_for(text: str) -> str | None:
    """A plain sentence for results like this one; `None` where there is none."""
    names = [name for name, _ in leaves_of(text)]
    if not names or len(names) > MAX_FIELDS or any(_FIELD.fullmatch(f"{{{name}}}") is None for name in names):
        return None
    parts = [f"the {re.sub(r'[._]+', ' ', name)} is {{{name}}}" for name in names]
    said = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{said[0].upper()}{said[1:]}."


def leaves_of(text: str) -> Iterator[tuple[str, str]]:
    """(path, text) of each value of a JSON object; nothing for any other text, or for an object with lists in it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict):
        found = list(_leaves(value, ""))
        if all(said is not None for _, said in found):
            yield from ((name, str(said)) for name, said in found)


def _leaves(value: dict[str, Any], path: str) -> Iterator[tuple[str, str | None]]:
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _leaves(inner, f"{path}{key}.")
        elif isinstance(inner, list | dict):
            yield f"{path}{key}", None
        else:
            yield f"{path}{key}", inner if isinstance(inner, str) else json.dumps(inner)
