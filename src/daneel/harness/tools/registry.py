"""`@tool`: a Python function that a model may call.

    @tool
    def add(a: int, b: int) -> int:
        '''Add two numbers.

        Args:
            a: the first number
        '''
        return a + b

The signature and the docstring make the schema, see `schema.py`; arguments are checked before a call, see `arguments.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import textwrap
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, field
from typing import Any, overload

from pydantic import BaseModel
from pydantic_core import to_json

from daneel.errors import UserError
from daneel.harness.tools.arguments import ArgumentsError, Bound, bind
from daneel.harness.tools.schema import JsonSchema, arguments_model, compact_schema, describe, where

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


@dataclass(frozen=True, eq=False)
class Tool:
    """A function a model may call. Made by `@tool`; calling it calls the function.

    `parallel`: safe to run at the same time as other calls. `repeats`: calling it again with the same arguments is
    sensible (it polls something), so the repeat detector leaves it alone.
    """

    name: str
    description: str
    parameters: JsonSchema
    function: Callable[..., Any]
    source: str
    parallel: bool = False
    repeats: bool = False
    model: type[BaseModel] = field(repr=False, default=BaseModel)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def declaration(self) -> dict[str, Any]:
        """The tool as the `tools` field of a request has it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def bind(self, arguments: dict[str, Any]) -> Bound:
        """Check arguments. Raises ArgumentsError, whose message is for the model."""
        return bind(self.model, arguments)

    def validate(self, arguments_json: str) -> dict[str, Any]:
        """Keyword arguments for the function, from JSON text. Raises ArgumentsError."""
        try:
            arguments = json.loads(arguments_json)
        except ValueError as error:
            raise ArgumentsError(f"the arguments are not JSON: {error}") from error
        if not isinstance(arguments, dict):
            raise ArgumentsError("the arguments must be a JSON object")
        return self.bind(arguments).kwargs

    def run(self, kwargs: dict[str, Any]) -> str:
        """Call the function; its result as the text the model reads. Exceptions of the function pass through."""
        result = self.function(**kwargs)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        elif inspect.isasyncgen(result):  # as with a generator, the result is all that it yields
            result = asyncio.run(_all_of(result))
        return result_text(result)


async def _all_of(items: AsyncIterable[Any]) -> list[Any]:
    return [item async for item in items]


def result_text(result: Any) -> str:
    """A tool's result as text: strings as they are, everything else as JSON."""
    if isinstance(result, str):
        return result.encode("utf-8", "replace").decode()  # a lone surrogate, as in odd file names, cannot be sent
    return to_json(result, fallback=str, inf_nan_mode="strings", bytes_mode="base64").decode()


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, parallel: bool = False, repeats: bool = False
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    repeats: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: `@tool`, or `@tool(name=…, description=…, parallel=True, repeats=True)`.

    Raises UserError, naming tool and line, when the function has no docstring (and no `description` is given), a
    parameter has no type, or the name has characters that servers refuse.
    """

    def make(function: Callable[..., Any]) -> Tool:
        tool_name = name or function.__name__
        if not _NAME.match(tool_name):
            raise UserError(f"{where(function)}: tool name {tool_name!r}: use 1 to 64 letters, digits, '_', '-' and '.'")
        text, per_parameter = describe(function)
        text = description if description is not None else text
        if not text.strip():
            raise UserError(
                f"{where(function)}: tool {tool_name} has no docstring; the model needs one to know when to call it"
            )
        model = arguments_model(function, tool_name, per_parameter)
        return Tool(tool_name, text, compact_schema(model), function, source_of(function), parallel, repeats, model)

    return make if function is None else make(function)


def source_of(function: Callable[..., Any]) -> str:
    """The function's source text, for fingerprints; its bytecode when the source is not to be had."""
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return code.co_code.hex() + repr(code.co_consts) if code is not None else repr(type(function))
