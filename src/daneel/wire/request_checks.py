"""Checks of a chat request's fields, one function each. They raise `BadRequest` with a message that names field and value."""

from __future__ import annotations

import math
import re
from typing import Any, get_args

from msgspec import UNSET, UnsetType

from daneel.wire.errors import BadRequest
from daneel.wire.ledger import Ledger
from daneel.wire.request_types import (
    CacheMode,
    ChatRequest,
    OnFailedToolCall,
    ReasoningField,
    ToolDeclaration,
    ToolResultStyle,
)
from daneel.wire.strict_json import kind_of, shown

MAX_CHOICES = 16
"""Replies to one request."""

RANGES: dict[str, tuple[float, float, str]] = {
    "temperature": (0, 2, "between 0 and 2"),
    "top_p": (math.nextafter(0, 1), 1, "above 0 and at most 1"),
    "top_k": (0, 2**31 - 1, "an integer of at least 0 (0: no limit)"),
    "min_p": (0, 1, "between 0 and 1"),
    "presence_penalty": (-2, 2, "between -2 and 2"),
    "frequency_penalty": (-2, 2, "between -2 and 2"),
    "repetition_penalty": (math.nextafter(0, 1), 100, "above 0 and at most 100"),
    "seed": (-(2**63), 2**63 - 1, "an integer of 64 bits with sign"),
    "max_tokens": (1, 2**31 - 1, "at least 1"),
    "max_completion_tokens": (1, 2**31 - 1, "at least 1"),
    "n": (1, MAX_CHOICES, f"between 1 and {MAX_CHOICES}"),
    "top_logprobs": (0, 20, "between 0 and 20"),
}
"""Lowest and highest value of each number, and how the message says it."""

MAX_STOP_STRINGS = 16
INCLUDE = ("prompt_text", "prompt_token_ids", "token_ids", "raw_text", "token_states")
PROMPT_FLAGS = ("add_generation_prompt", "continue_final_message")

_WORDS: dict[str, tuple[str, ...]] = {
    "on_failed_tool_call": get_args(OnFailedToolCall),
    "tool_result_style": get_args(ToolResultStyle),
    "reasoning_field": get_args(ReasoningField),
    "cache.mode": get_args(CacheMode),
}
_TEMPLATE_VARIABLES = ("messages", "tools")
_TOOL_NAME = re.compile(r"[\w./:-]{1,128}")
_TOKEN_ID = re.compile(r"[0-9]{1,10}")


def messages(value: Any) -> None:
    """That there are messages and that each is an object: all that can be said without knowing roles and formats."""
    if value is None:
        raise BadRequest("messages: missing", param="messages")
    if not isinstance(value, list):
        raise BadRequest(f"messages: must be an array, not {kind_of(value)}", param="messages")
    if not value:
        raise BadRequest("messages: empty; at least one message is needed", param="messages")
    for index, message in enumerate(value):
        if not isinstance(message, dict):
            raise _bad(f"messages[{index}]", f"must be an object, not {kind_of(message)}", message)


def choices(given: dict[str, Any]) -> None:
    """Fields that take one of a few words."""
    for name, words in _WORDS.items():
        value: Any = given
        for step in name.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, str) and value not in words:
            raise _bad(name, f"must be one of {', '.join(words)}", value)


def numbers(given: dict[str, Any]) -> None:
    for name, (lowest, highest, wanted) in RANGES.items():
        value = given.get(name)
        if value is not None and not lowest <= value <= highest:
            raise _bad(name, f"must be {wanted}", value)
    pin_s = (given.get("cache") or {}).get("pin_s")
    if pin_s is not None and pin_s < 0:
        raise _bad("cache.pin_s", "must be at least 0 seconds", pin_s)


def max_tokens(request: ChatRequest) -> None:
    """The two names of one limit: they may both stand there if they agree."""
    old, new = request.max_tokens, request.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise BadRequest(f"max_tokens ({old}) and max_completion_tokens ({new}) differ: give one", param="max_tokens")
    request.max_tokens = old if old is not None else new


def logprobs(request: ChatRequest) -> None:
    if request.top_logprobs is not None and not request.logprobs:
        raise _bad("top_logprobs", "needs logprobs: true", request.top_logprobs)


def logit_bias(biases: dict[str, float] | None) -> None:
    for token, bias in (biases or {}).items():
        if not _TOKEN_ID.fullmatch(token):
            raise BadRequest(f"logit_bias: the key {shown(token)} is no token id", param="logit_bias")
        if not -100 <= bias <= 100:
            raise _bad(f"logit_bias.{token}", "must be between -100 and 100", bias)


def include(names: list[str]) -> None:
    for index, name in enumerate(names):
        if name not in INCLUDE:
            raise _bad(f"include[{index}]", f"must be one of {', '.join(INCLUDE)}", name)


def stop_strings(stop: str | list[str] | None) -> list[str] | None:
    """The stop strings as a list, `None` if there are none."""
    listed = [stop] if isinstance(stop, str) else stop or []
    if len(listed) > MAX_STOP_STRINGS:
        raise BadRequest(f"stop: {len(listed)} strings, at most {MAX_STOP_STRINGS} are taken", param="stop")
    for index, text in enumerate(listed):
        if not text:
            raise BadRequest(f"stop: string {index} is empty", param="stop")
    return listed or None


def tools(declared: list[ToolDeclaration], given: list[dict[str, Any]], ledger: Ledger) -> None:
    """Types, names, and that each name stands once; schemas are checked by whoever compiles them."""
    seen: set[str] = set()
    for index, tool in enumerate(declared):
        path = f"tools[{index}]"
        if tool.type != "function":
            raise _bad(f"{path}.type", 'must be "function"', tool.type)
        name = tool.function.name
        if not _TOOL_NAME.fullmatch(name):
            wanted = "must be 1 to 128 letters, digits or any of _ - . / :"
            raise _bad(f"{path}.function.name", wanted, name)
        if name in seen:
            raise _bad(f"{path}.function.name", "is declared twice", name)
        seen.add(name)
        kind = (tool.function.parameters or {}).get("type", "object")
        if kind != "object":
            raise _bad(f"{path}.function.parameters.type", 'must be "object"', kind)
        ledger.nested(given[index], type(tool), path)
        ledger.nested(given[index]["function"], type(tool.function), f"{path}.function")


def tool_choice(choice: str | dict[str, Any], names: list[str], ledger: Ledger) -> None:
    if isinstance(choice, str):
        if choice not in ("none", "auto", "required"):
            wanted = 'must be "none", "auto", "required" or {"type": "function", "function": {"name": …}}'
            raise _bad("tool_choice", wanted, choice)
        if choice == "required" and not names:
            raise BadRequest('tool_choice: "required", but the request declares no tools', param="tool_choice")
        return
    if choice.get("type") != "function":
        raise _bad("tool_choice.type", 'must be "function"', choice.get("type"))
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str):
        raise _bad("tool_choice", "must name a tool as function.name", choice)
    if name not in names:
        known = f"the request declares {', '.join(names)}" if names else "the request declares no tools"
        raise _bad("tool_choice.function.name", f"is not declared ({known})", name)
    ledger.nested(choice, frozenset({"type", "function"}), "tool_choice")
    ledger.nested(function, frozenset({"name"}), "tool_choice.function")


def response_format(value: dict[str, Any] | None, ledger: Ledger) -> None:
    if value is None:
        return
    kind = value.get("type")
    if kind not in ("text", "json_object", "json_schema"):
        raise _bad("response_format.type", 'must be "text", "json_object" or "json_schema"', kind)
    if kind != "text":
        ledger.ignored("response_format", f"{kind} is not supported yet: the reply is not constrained")


def stream_options(given: Any, stream: bool, ledger: Ledger) -> None:
    """What the options hold beside `include_usage`, and whether they can apply at all."""
    if not isinstance(given, dict):
        return
    if not stream:
        ledger.ignored("stream_options", "the request does not stream")
        return
    for name, value in given.items():
        if name == "include_usage" or (name == "include_obfuscation" and value in (False, None)):
            continue
        ledger.ignored(f"stream_options.{name}", "unknown field")


def prompt_flags(request: ChatRequest) -> None:
    """`add_generation_prompt` and `continue_final_message`, at top level or for the template, become one pair."""
    kwargs = dict(request.chat_template_kwargs)
    for name in _TEMPLATE_VARIABLES:
        if name in kwargs:
            raise BadRequest(
                f"chat_template_kwargs.{name}: not allowed, {name} is a field of its own", param="chat_template_kwargs"
            )
    for name in PROMPT_FLAGS:
        setattr(request, name, _merged(name, getattr(request, name), kwargs.pop(name, None)))
    request.chat_template_kwargs = kwargs
    if request.add_generation_prompt is True and request.continue_final_message is True:
        raise BadRequest(
            "add_generation_prompt and continue_final_message are both true: a turn is either opened or continued",
            param="continue_final_message",
        )


def _merged(name: str, top: bool | UnsetType, nested: Any) -> bool | UnsetType:
    if nested is None:
        return top
    if not isinstance(nested, bool):
        raise _bad(f"chat_template_kwargs.{name}", "must be true or false", nested)
    if top is not UNSET and top is not nested:
        raise BadRequest(f"{name} is {shown(top)} and chat_template_kwargs.{name} is {shown(nested)}: give one", param=name)
    return nested


def _bad(field: str, problem: str, value: Any) -> BadRequest:
    return BadRequest(f"{field}: {problem}; got {shown(value)}", param=field)
