"""Examples of a tool: calls with what they must give, run before any trial, so that a broken tool is found first.

    @tool(examples=[Example({"a": 1, "b": 2}, 3), Example({"a": 2**70, "b": 1}, lambda sum: sum > 2**70)])
    def add(a: int, b: int) -> int: ...

`daneel check FILE` runs them all; `daneel measure` refuses to start with one that fails. They run whatever the tool's effects
are: whoever writes an example wants it run. Those of tools that write files or run programs, and those that bring `files`, run
in an empty folder of their own, which is the working directory meanwhile.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daneel.errors import UserError
from daneel.harness.raised import described, is_interrupt
from daneel.harness.tools.arguments import ArgumentsError, show
from daneel.harness.tools.rendering import RenderFailed, render, result_text
from daneel.harness.tools.running import call

if TYPE_CHECKING:
    from daneel.harness.tools.registry import Tool

SHOWN_CHARS = 200
TIMEOUT_S = 60.0
"""For an example of a tool that has no time limit of its own."""


@dataclass(frozen=True)
class Example:
    """A call, and what it must give: a value, or a predicate over the tool's result.

    `rendered` is the same for the sentence the model reads. `files` are there before the call: path to text.
    """

    arguments: Mapping[str, Any]
    result: Any = ...
    rendered: str | Callable[[str], bool] | None = None
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checked:
    """One example, run. `problem` is None when it gave what it should."""

    tool: str
    arguments: Mapping[str, Any]
    problem: str | None


def examples_of(given: Iterable[Any], label: str) -> tuple[Example, ...]:
    """What `@tool(examples=…)` was given; a pair `(arguments, result)` is an example too. Raises UserError."""
    examples = []
    for entry in given:
        example = Example(*entry) if isinstance(entry, tuple) and len(entry) == 2 else entry
        if not isinstance(example, Example):
            raise UserError(f"{label}: examples must be Example(arguments, result), not {entry!r}")
        if not isinstance(example.arguments, Mapping):
            raise UserError(f"{label}: an example's arguments must be an object by name, not {example.arguments!r}")
        examples.append(example)
    return tuple(examples)


def check_tools(tools: Sequence[Tool]) -> list[Checked]:
    """Run all examples of `tools`, one after the other."""
    return [check_example(tool, example) for tool in tools for example in tool.examples]


def require_sound(tools: Iterable[Tool]) -> None:
    """Raises UserError when an example of any of these tools fails. A tool that several harnesses share is tried once."""
    broken = [found for found in check_tools(list(dict.fromkeys(tools))) if found.problem is not None]
    if broken:
        first = broken[0]
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise UserError(f"tool {first.tool} is broken: its example {show(dict(first.arguments))} {first.problem}{more}")


def check_example(tool: Tool, example: Example) -> Checked:
    """Run one example. Whatever goes wrong is its `problem`."""
    return Checked(tool.name, example.arguments, _problem(tool, example))


def _problem(tool: Tool, example: Example) -> str | None:
    try:
        bound = tool.bind(dict(example.arguments))
    except ArgumentsError as error:
        return f"does not fit the tool's own parameters: {error.message}"
    except (TypeError, ValueError) as error:
        return f"cannot be written as JSON: {error}"
    if bound.conversions:
        return f"fits only after a conversion: {bound.conversions[0]}"
    with _folder_for(tool, example) as problem:
        if problem is not None:
            return problem
        done = call(tool, bound.kwargs, timeout_s=tool.timeout_s or TIMEOUT_S)
        if done.error is not None:
            return f"raised {done.error}"
        return _differs(tool, example, done.value, bound.kwargs)


def _differs(tool: Tool, example: Example, value: Any, kwargs: dict[str, Any]) -> str | None:
    try:
        text = render(tool, value, kwargs)
    except RenderFailed as error:
        return f"gave {_shown(value)}, and the tool's render raised {error}"
    try:
        if not _fits(value, example.result):
            return f"gave {_shown(value)}, which is not {_expected(example.result)}"
        if example.rendered is not None and not _fits(text, example.rendered):
            return f"is told as {show(text)}, which is not {_expected(example.rendered)}"
    except BaseException as error:  # a predicate is a person's own code
        if is_interrupt(error):
            raise
        return f"gave {_shown(value)}, and the example's own check raised {described(error)}"
    return None


def _fits(value: Any, expected: Any) -> bool:
    """Equal as Python has it, or as the JSON that the model would read."""
    if expected is ...:
        return True
    if callable(expected):
        return bool(expected(value))
    return bool(value == expected) or result_text(value) == result_text(expected)


def _expected(expected: Any) -> str:
    return "what its check wants" if callable(expected) else _shown(expected)


def _shown(value: Any) -> str:
    text = show(value) if isinstance(value, str) else result_text(value)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def _folder_for(tool: Tool, example: Example) -> AbstractContextManager[str | None]:
    if example.files or tool.effects & {"write", "exec"}:
        return _own_folder(example)
    return nullcontext()


@contextmanager
def _own_folder(example: Example) -> Iterator[str | None]:
    """An empty working directory with the example's files; gives what was wrong with them, if anything."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        problem = None
        for path, text in example.files.items():
            target = (folder / path).resolve()
            if not target.is_relative_to(folder):
                problem = f"has a file outside its folder: {path}"
                break
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        os.chdir(folder)
        try:
            yield problem
        finally:
            os.chdir(before)
