"""Other names and descriptions of tools: by rules from the harness itself, or as a model proposes them.

The rules look at the tool's function (its name, its docstring, its arguments) and at how the other tools are called and
described: beside `cur_time`, "Get current time", a tool `my_date` becomes `cur_date`, "Get current date".
What a model proposes is checked before it counts for anything: one short line, a valid name that no tool has.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from daneel.bench.lint.descriptions import nothing_said
from daneel.bench.lint.meaning import split_words
from daneel.harness.definition import Harness
from daneel.harness.tools.registry import NAME, Tool

MAX_DESCRIPTION_CHARS = 200
MAX_NAME_CHARS = 40
MIN_WORD_CHARS = 3
"""Of a word that one tool's name and description have in common, and another's may have in its place."""
_POSSESSIVE = frozenset({"my", "the", "a", "our", "tool", "function", "do", "x"})


class Wording(Struct, frozen=True, kw_only=True):
    """A name or a description, and where it comes from."""

    text: str
    source: str = "rule"


def names_for(harness: Harness, name: str) -> list[Wording]:
    """Names by rule: as the tools beside it are called; as its function is."""
    tool = harness.tool(name)
    if tool is None:
        return []
    found = [alike for alike, _ in _analogies(harness, tool) if alike]
    found.append(getattr(tool.function, "__name__", ""))
    found.append("_".join(word for word in split_words(name) if word not in _POSSESSIVE))
    return [Wording(text=text) for text in dict.fromkeys(found) if why_no_name(text, harness) is None]


def descriptions_for(harness: Harness, name: str) -> list[Wording]:
    """Descriptions by rule: the function's docstring; as the tools beside it are described; what its names say."""
    tool = harness.tool(name)
    if tool is None:
        return []
    found = [_docstring(tool), *(wording.text for wording in description_like(harness, name)), _from_names(tool)]
    return [
        Wording(text=text)
        for text in dict.fromkeys(found)
        if why_no_description(text) is None and text != tool.description and nothing_said(name, text) is None
    ]


def description_like(harness: Harness, name: str) -> list[Wording]:
    """The descriptions of other tools, with this one's word in place of theirs."""
    tool = harness.tool(name)
    return [] if tool is None else [Wording(text=text) for _, text in _analogies(harness, tool) if text]


def why_no_name(text: str, harness: Harness) -> str | None:
    """Why this cannot be a tool's name; `None` where it can."""
    if not NAME.match(text):
        return "no valid name of a tool"
    if len(text) > MAX_NAME_CHARS:
        return f"longer than {MAX_NAME_CHARS} characters"
    return "another tool has that name" if harness.tool(text) is not None else None


def why_no_description(text: str) -> str | None:
    """Why this cannot be a description; `None` where it can."""
    if len(text) > MAX_DESCRIPTION_CHARS:
        return f"longer than {MAX_DESCRIPTION_CHARS} characters"
    if not text.strip() or not text.isprintable() or "\ufffd" in text:
        return "empty, or with characters that cannot be printed"
    if re.search(r"<\|?/?\w+\|?>|\[/?INST\]|\[TOOL", text):
        return "it looks like a marker of a chat template"
    return None


def checked(
    lines: Sequence[str], harness: Harness, tool: str, what: str, source: str, refuse: Callable[[str, str], None]
) -> Iterator[Wording]:
    """Those lines that can be a name or a description; `refuse` is told of each other one, cut short, and why."""
    for line in dict.fromkeys(lines):
        why = why_no_name(line, harness) if what == "name" else why_no_description(line) or _says_nothing(tool, line)
        if why is None:
            yield Wording(text=line, source=source)
        else:
            refuse(line[:MAX_NAME_CHARS], why)


def _says_nothing(tool: str, text: str) -> str | None:
    why = nothing_said(tool, text)
    return None if why is None else f"it {why}"


def _docstring(tool: Tool) -> str:
    text = inspect.getdoc(tool.function) or ""
    return " ".join(text.split("\n\n")[0].split())


def _from_names(tool: Tool) -> str:
    """ "Get current date", from a name such as `get_current_date` or the function's."""
    own = split_words(getattr(tool.function, "__name__", ""))
    words = [word for word in split_words(tool.name) if word not in _POSSESSIVE] or own
    if len(words) < 2 and len(own) >= 2:
        words = own
    arguments = list(tool.parameters.get("properties", {}))
    said = " ".join(words)
    if not said:
        return ""
    by = f" by {' and '.join(arguments[:3])}" if arguments else ""
    return f"{said[0].upper()}{said[1:]}{by}" if len(words) > 1 else f"Give the {said}{by}"


def _analogies(harness: Harness, tool: Tool) -> Iterator[tuple[str, str]]:
    """(name, description) after each other tool whose description speaks of the last word of its name."""
    words = [word for word in split_words(tool.name) if word not in _POSSESSIVE]
    if not words or len(words[-1]) < MIN_WORD_CHARS:
        return
    for other in harness.tools:
        theirs = split_words(other.name)
        if other.name == tool.name or len(theirs) < 2 or theirs[-1] == words[-1] or len(theirs[-1]) < MIN_WORD_CHARS:
            continue
        pattern = rf"(?i)\b{re.escape(theirs[-1])}\b"
        if nothing_said(other.name, other.description) is not None or not re.search(pattern, other.description):
            continue
        if set(other.parameters.get("properties", {})) != set(tool.parameters.get("properties", {})):
            continue
        name = "_".join([*theirs[:-1], words[-1]])
        yield name, re.sub(pattern, lambda _: words[-1], other.description)
