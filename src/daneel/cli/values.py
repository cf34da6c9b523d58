"""What several commands take and give: text and JSON in files, JSON on the command line, JSON on standard output."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from daneel.errors import UserError
from daneel.wire.request_checks import PROMPT_FLAGS

STDIN = Path("-")

_TEMPLATE_FIELDS = frozenset({"messages", "tools"})


def read_text(option: str, path: Path) -> str:
    """The text of a file, or of standard input for `-`. Raises `UserError`."""
    try:
        if path == STDIN:
            return sys.stdin.buffer.read().decode("utf-8")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"{option}: {path} cannot be read: {reason}") from error


def read_json(option: str, path: Path) -> Any:
    """The value in a JSON file, or in standard input for `-`. Raises `UserError`."""
    text = read_text(option, path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{option}: {path} is not JSON: {error}") from error


def read_tools(path: Path) -> list[Any]:
    """Tool declarations: a JSON array, or a request that holds them. Raises `UserError`."""
    value = read_json("--tools", path)
    tools = value.get("tools") if isinstance(value, dict) else value
    if not isinstance(tools, list):
        raise UserError(f"--tools: {path} must hold a JSON array of tool declarations")
    return tools


def byte_size(option: str, text: str) -> int:
    """Bytes, from a number with a unit or without: `2GiB`, `512MiB`, `1000000`, `0`. Raises `UserError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(|[KMGT]i?B?|B)", text.strip(), re.IGNORECASE)
    if match is None:
        raise UserError(f"{option} is {text!r}, but must be a size such as 512MiB, 2GiB or 0")
    unit = match[2].upper()
    power = "KMGT".index(unit[0]) + 1 if unit[:1] in "KMGT" and unit else 0
    return int(float(match[1]) * (1024 if "I" in unit or len(unit) == 1 else 1000) ** power)


def template_variables(option: str, text: str) -> dict[str, Any]:
    """Variables for a chat template, from JSON on the command line. Raises `UserError`."""
    try:
        variables = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{option} is not JSON ({error}): {text[:80]}") from error
    if not isinstance(variables, dict):
        raise UserError(f"{option} must be a JSON object: {text[:80]}")
    for name in _TEMPLATE_FIELDS & variables.keys():
        raise UserError(f"{option} may not hold {name!r}: every request has its own")
    for name in variables.keys() & set(PROMPT_FLAGS):
        if not isinstance(variables[name], bool):
            raise UserError(f"{option}: {name} must be true or false, not {variables[name]!r}")
    return variables


def print_json(value: Any) -> None:
    """Indented on standard output; with escapes where its encoding may lack a character, so that it stays JSON."""
    is_utf8 = sys.stdout.encoding.lower().replace("-", "") == "utf8"
    print(json.dumps(value, indent=2, ensure_ascii=not is_utf8))


def given(**options: Any) -> dict[str, Any]:
    """Those of the options that were given."""
    return {name: value for name, value in options.items() if value is not None}
