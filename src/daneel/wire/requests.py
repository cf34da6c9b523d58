"""The request side of the dialect: what a chat request may hold.

`parse_chat_request()` checks everything that can be checked without a model and says, for every field that daneel does not
honour, whether it is ignored (an entry in `warnings`) or refused (400). The structs are in `request_types.py`, the checks in
`request_checks.py`, the entries in `ledger.py`.
"""

from __future__ import annotations

from daneel.wire import request_checks as checks
from daneel.wire.convert import converted
from daneel.wire.ledger import Ledger
from daneel.wire.messages import Warning
from daneel.wire.request_types import (
    CacheControl,
    CacheMode,
    ChatRequest,
    FunctionDeclaration,
    OnFailedToolCall,
    ReasoningField,
    StreamOptions,
    ToolDeclaration,
    ToolResultStyle,
)
from daneel.wire.strict_json import decode_object

__all__ = [
    "CacheControl",
    "CacheMode",
    "ChatRequest",
    "FunctionDeclaration",
    "OnFailedToolCall",
    "ReasoningField",
    "StreamOptions",
    "ToolDeclaration",
    "ToolResultStyle",
    "parse_chat_request",
]

_FIELDS = frozenset(ChatRequest.__struct_fields__)


def parse_chat_request(body: bytes) -> tuple[ChatRequest, list[Warning]]:
    """The request in `body` and what of it is not honoured. Raises `BadRequest`, whose message names field and value."""
    raw = decode_object(body)
    # clients write null for what they leave open
    given = {name: value for name, value in raw.items() if value is not None}
    checks.messages(given.get("messages"))
    checks.choices(given)
    request = converted(given, ChatRequest)
    ledger = Ledger(strict=request.strict_fields)
    ledger.top_level(raw, _FIELDS)
    checks.numbers(given)
    checks.max_tokens(request)
    checks.logprobs(request)
    checks.logit_bias(request.logit_bias)
    checks.include(request.include)
    request.stop = checks.stop_strings(request.stop)
    checks.tools(request.tools, given.get("tools", []), ledger)
    checks.tool_choice(request.tool_choice, [tool.function.name for tool in request.tools], ledger)
    checks.response_format(request.response_format, ledger)
    checks.stream_options(given.get("stream_options"), request.stream, ledger)
    checks.prompt_flags(request)
    return request, ledger.warnings
