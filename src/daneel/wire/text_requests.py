"""Requests about text, not for a reply: a model's output to be read, a text to be tokenised."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from daneel.wire.convert import converted
from daneel.wire.errors import BadRequest
from daneel.wire.ledger import Ledger
from daneel.wire.messages import Warning
from daneel.wire.request_types import ToolDeclaration
from daneel.wire.strict_json import decode_object, kind_of, shown


class ParseRequest(Struct, kw_only=True):
    """The body of `/v1/parse`; a line of `daneel parse --batch` holds the same fields and some more.

    `family`: the format's name. `tools` null: nothing is known of them, so every name counts as declared. `gen_prompt`: the end
    of the prompt; what it has opened is open. `starts_in_reasoning` true: a thought is open whatever the prompt shows. `cuts`:
    positions in `raw` at which it is fed in pieces. `truncated`: a length limit ended it, not the model. `spans`: also tell
    what each character was.
    """

    raw: str
    model: str | None = None
    family: str | None = None
    tools: list[ToolDeclaration] | None = None
    gen_prompt: str = ""
    starts_in_reasoning: bool | None = None
    cuts: list[int] = []
    truncated: bool = False
    spans: bool = False


class TokenizeRequest(Struct, kw_only=True):
    """The body of `/v1/tokenize`. `pieces`: also give the text of each token."""

    text: str
    model: str | None = None
    pieces: bool = False


def parse_request(body: bytes) -> tuple[ParseRequest, list[Warning]]:
    """The request in `body` of `/v1/parse`, and what of it is not honoured. Raises `BadRequest`."""
    given = decode_object(body)
    return parse_fields(given), _unknown(given, ParseRequest)


def parse_fields(given: dict[str, Any]) -> ParseRequest:
    """The request that these fields make; others are left alone. Raises `BadRequest` naming field and value."""
    fields = {name: value for name, value in given.items() if value is not None}
    if "tools" in fields:
        fields["tools"] = tool_declarations(fields["tools"])
    request = converted(fields, ParseRequest) if "raw" in fields else None
    if request is None:
        raise BadRequest("raw: missing; it is the model's output, as text", param="raw")
    for index, cut in enumerate(request.cuts):
        if not 0 <= cut <= len(request.raw):
            raise BadRequest(f"cuts[{index}]: must be from 0 to {len(request.raw)}, the length of raw; got {cut}", param="cuts")
    return request


def tokenize_request(body: bytes) -> tuple[TokenizeRequest, list[Warning]]:
    """The request in `body` of `/v1/tokenize`, and what of it is not honoured. Raises `BadRequest`."""
    given = decode_object(body)
    fields = {name: value for name, value in given.items() if value is not None}
    if "text" not in fields:
        raise BadRequest("text: missing; it is what is to be tokenised", param="text")
    return converted(fields, TokenizeRequest), _unknown(given, TokenizeRequest)


def tool_declarations(given: Any) -> list[Any]:
    """Tools as people write them down: declarations of the dialect, or the function objects alone."""
    if not isinstance(given, list):
        raise BadRequest(f"tools: must be an array, not {kind_of(given)}", param="tools")
    declarations = []
    for index, tool in enumerate(given):
        if not isinstance(tool, dict):
            raise BadRequest(f"tools[{index}]: must be an object, not {kind_of(tool)}; got {shown(tool)}", param="tools")
        declarations.append(tool if "function" in tool else {"type": "function", "function": tool})
    return declarations


def _unknown(given: dict[str, Any], kind: type[Struct]) -> list[Warning]:
    ledger = Ledger(strict=False)
    ledger.top_level(given, frozenset(kind.__struct_fields__))
    return ledger.warnings
