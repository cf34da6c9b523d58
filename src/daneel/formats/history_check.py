"""Reading a history as people have it: one normal form, or an error that names the message and the field.

Accepted: role `model` for `assistant`, `developer` for `system`, `function` for `tool`; content as text, null or parts;
`reasoning`, `reasoning_content` or `thinking`; call arguments as JSON text or as an object; results as `tool` messages or as
Google's `tool_responses` on the assistant message; OpenAI's older `function_call`. Fields that are not known are kept as they
are, since the model's template may read them.
"""

from __future__ import annotations

import json
import math
from typing import Any

Message = dict[str, Any]

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_REASONING_FIELDS = ("reasoning", "reasoning_content", "thinking")
_CALL_FIELDS = ("tool_calls", "failed_tool_calls", "tool_responses")
_TEXT_PARTS = {"text", "input_text", "output_text"}


class HistoryError(ValueError):
    """The history cannot be used as it is: `messages[index]`, its `field` ("" = the whole message), and why."""

    def __init__(self, index: int, field: str, message: str) -> None:
        place = f"messages[{index}]" + (f".{field}" if field else "")
        super().__init__(f"{place}: {message}")
        self.index = index
        self.field = field
        self.message = message


def check(messages: list[Any]) -> list[Message]:
    """The history in normal form: roles `system`, `user`, `assistant`, `tool`; `content` a string.

    Assistant messages may have `reasoning` (a string), `tool_calls` (`{"id", "type", "function": {"name", "arguments":
    object}}`) and `failed_tool_calls` (`{"id", "position", "name", "raw"}`). Tool messages have `tool_call_id` and `name`.
    """
    checked: list[Message] = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            raise HistoryError(index, "", f"expected an object, got {_kind(message)}")
        checked.extend(_check_message(index, message, checked))
    return checked


def _check_message(index: int, message: Message, before: list[Message]) -> list[Message]:
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise HistoryError(index, "role", f"expected one of {', '.join(_ROLES)}; got {_shown(role)}")
    result = {key: value for key, value in message.items() if key not in _REASONING_FIELDS}
    result["role"] = _ROLES[role]
    if result["role"] == "assistant":
        return _assistant(index, message, result)
    for field in _CALL_FIELDS:
        if result.pop(field, None):
            raise HistoryError(index, field, f"only an assistant message may have it; this one's role is {role}")
    if result["role"] == "tool":
        result["content"] = result_text(index, "content", message.get("content"))
        result["tool_call_id"] = _optional_text(index, message, "tool_call_id") or ""
        result["name"] = _optional_text(index, message, "name") or _name_of_call(result["tool_call_id"], before)
    else:
        result["content"] = _text(index, "content", message.get("content"))
    return [result]


def _assistant(index: int, message: Message, result: Message) -> list[Message]:
    result["content"] = _text(index, "content", message.get("content"))
    reasoning = [_optional_text(index, message, field) for field in _REASONING_FIELDS]
    found = next((text for text in reasoning if text), None)
    if found is not None:
        result["reasoning"] = found
    calls = _list(index, message, "tool_calls")
    old_call = result.pop("function_call", None)
    if old_call is not None:
        calls = [*calls, {"function": old_call}]
    for field in _CALL_FIELDS:
        result.pop(field, None)
    if calls:
        result["tool_calls"] = [_call(index, number, call) for number, call in enumerate(calls)]
    failed = _list(index, message, "failed_tool_calls")
    if failed:
        result["failed_tool_calls"] = [_failed(index, number, call) for number, call in enumerate(failed)]
    return [result, *_responses(index, message, result.get("tool_calls", []))]


def _call(index: int, number: int, call: Any) -> Message:
    field = f"tool_calls[{number}]"
    if not isinstance(call, dict):
        raise HistoryError(index, field, f"expected an object, got {_kind(call)}")
    function = call.get("function", call)
    if not isinstance(function, dict):
        raise HistoryError(index, f"{field}.function", f"expected an object, got {_kind(function)}")
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise HistoryError(index, f"{field}.function.name", f"expected a name, got {_shown(name)}")
    call_id = call.get("id")
    if call_id is not None and not isinstance(call_id, str):
        raise HistoryError(index, f"{field}.id", f"expected a string, got {_kind(call_id)}")
    arguments = _arguments(index, f"{field}.function.arguments", function.get("arguments"))
    return {
        "id": call_id or f"call_{index}_{number}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _arguments(index: int, field: str, value: Any) -> dict[str, Any]:
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_constant=_no_constant, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            raise HistoryError(index, field, f"not JSON: {error}; got {_shown(value)}") from error
    if not isinstance(value, dict):
        raise HistoryError(index, field, f"expected an object, got {_kind(value)}")
    return value


def _failed(index: int, number: int, call: Any) -> Message:
    field = f"failed_tool_calls[{number}]"
    if not isinstance(call, dict):
        raise HistoryError(index, field, f"expected an object, got {_kind(call)}")
    raw, position = call.get("raw"), call.get("position", number)
    if not isinstance(raw, str):
        raise HistoryError(index, f"{field}.raw", f"expected the model's text, got {_kind(raw)}")
    if isinstance(position, bool) or not isinstance(position, int) or position < 0:
        raise HistoryError(index, f"{field}.position", f"expected a number from 0, got {_shown(position)}")
    call_id, name = _optional_text(index, call, "id", field), _optional_text(index, call, "name", field)
    return {"id": call_id or f"failed_{index}_{number}", "position": position, "name": name, "raw": raw}


def _responses(index: int, message: Message, calls: list[Message]) -> list[Message]:
    """Google's native form of results, as `tool` messages: each answers the first open call of its name, or the next one."""
    results: list[Message] = []
    open_calls = list(calls)
    for number, response in enumerate(_list(index, message, "tool_responses")):
        field = f"tool_responses[{number}]"
        if not isinstance(response, dict):
            raise HistoryError(index, field, f"expected an object, got {_kind(response)}")
        name = _optional_text(index, response, "name", field)
        content = result_text(index, f"{field}.response", response.get("response", response.get("content")))
        call = next((item for item in open_calls if name in (None, item["function"]["name"])), None)
        if call is not None:
            open_calls.remove(call)
        call_id = call["id"] if call is not None else ""
        name = name or (call["function"]["name"] if call is not None else "unknown")
        results.append({"role": "tool", "tool_call_id": call_id, "name": name, "content": content})
    return results


def _name_of_call(call_id: str, before: list[Message]) -> str:
    for message in reversed(before):
        for call in message.get("tool_calls", ()):
            if call["id"] == call_id:
                return str(call["function"]["name"])
        for call in message.get("failed_tool_calls", ()):
            if call["id"] == call_id:
                return str(call["name"] or "unknown")
    return "unknown"


def result_text(index: int, field: str, value: Any) -> str:
    """A tool's result as text: a value that is none is written as JSON."""
    if isinstance(value, list) and all(isinstance(part, dict) and "type" in part for part in value):
        return _text(index, field, value)
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise HistoryError(index, field, f"cannot be written as JSON: {error}") from error


def _text(index: int, field: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise HistoryError(index, field, f"expected text, null or a list of parts, got {_kind(value)}")
    texts: list[str] = []
    for number, part in enumerate(value):
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = part.get("type", "text" if "text" in part else None) if isinstance(part, dict) else None
        if kind == "refusal" and isinstance(part.get("refusal"), str):
            texts.append(part["refusal"])
        elif isinstance(kind, str) and kind in _TEXT_PARTS and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            what = f"a part of type {_shown(kind)}" if kind else _kind(part)
            raise HistoryError(index, f"{field}[{number}]", f"this model takes text only; got {what}")
    return "".join(texts)


def _optional_text(index: int, holder: Message, field: str, inside: str = "") -> str | None:
    value = holder.get(field)
    if value is not None and not isinstance(value, str):
        raise HistoryError(index, f"{inside}.{field}" if inside else field, f"expected a string, got {_kind(value)}")
    return value


def _list(index: int, message: Message, field: str) -> list[Any]:
    value = message.get(field)
    if value is None:
        return []
    if not isinstance(value, list):
        raise HistoryError(index, field, f"expected a list, got {_kind(value)}")
    return value


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is out of range")
    return value


def _kind(value: Any) -> str:
    names = {bool: "a boolean", dict: "an object", list: "a list", str: "a string", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
