"""A request's tool declarations as the formats know them."""

from __future__ import annotations

from collections.abc import Sequence

from daneel.formats.base import Tool
from daneel.formats.validate import ToolSet
from daneel.wire.errors import BadRequest
from daneel.wire.request_types import ToolDeclaration

NO_PARAMETERS = {"type": "object", "properties": {}}


def tool_set(declared: Sequence[ToolDeclaration] | None) -> ToolSet:
    """The declared tools; `None`: nothing is known of them. Raises `BadRequest` when a schema is none."""
    try:
        return ToolSet(None if declared is None else [to_tool(declaration) for declaration in declared])
    except ValueError as error:
        raise BadRequest(str(error), param="tools") from error


def to_tool(declaration: ToolDeclaration) -> Tool:
    """The declaration as the formats know it. Without `parameters` it is a tool without arguments, so none are admitted."""
    function = declaration.function
    parameters = function.parameters or {**NO_PARAMETERS, "additionalProperties": False}
    return Tool(function.name, function.description or "", parameters, bool(function.strict))
