"""Error bodies of any server: what was wrong, from whatever shape it came in.

Shapes seen: `{"error": {"message", "type", "code"}}` (OpenAI, llama-server, vLLM), `{"error": "text"}` (mlx_lm.server, Ollama),
`{"message", "type", "code"}` flat (older vLLM, SGLang), `{"detail": "text"}` and `{"detail": [{"loc", "msg"}]}` (FastAPI),
`{"error": {"error": …}}` and JSON inside a message (proxies), plain text or HTML (anything in between).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from daneel.wire.lenient_json import decode

MAX_MESSAGE_CHARS = 2000


class PeerError(NamedTuple):
    """What a server said was wrong. `code` is text also when the server wrote a number."""

    message: str
    type: str | None = None
    code: str | None = None


def read_error(body: bytes) -> PeerError:
    """The error in a response body, never raising: an unknown shape gives its text, an empty body says so."""
    try:
        found = error_in(decode(body))
    except ValueError:
        found = None
    if found is not None:
        return found
    text = body[: 4 * MAX_MESSAGE_CHARS].decode("utf-8", errors="replace").strip()
    return PeerError(_cut(text) or "(empty body)")


def error_in(value: Any) -> PeerError | None:
    """The error a decoded body or stream frame holds, or `None` if it holds none."""
    if not isinstance(value, dict):
        return None
    if value.get("error"):
        return _from_error(value["error"], value)
    if value.get("detail") and "choices" not in value:
        return PeerError(_detail(value["detail"]), _text(value.get("type")), _text(value.get("code")))
    says_error = value.get("object") == "error" or value.get("type") == "error" or "choices" not in value
    if says_error and isinstance(value.get("message"), str) and value["message"]:
        return PeerError(_cut(value["message"]), _text(value.get("type")), _text(value.get("code")))
    return None


def _from_error(error: Any, around: dict[str, Any]) -> PeerError:
    if isinstance(error, dict):
        message = error.get("message") or error.get("error") or error.get("detail") or error.get("msg")
        if isinstance(message, dict):
            return _from_error(message, error)
        text = message if isinstance(message, str) else _json(message if message else error)
        return PeerError(_cut(text), _text(error.get("type")), _text(error.get("code")))
    text = error if isinstance(error, str) else _text(around.get("message")) or _json(error)
    return PeerError(_cut(text), _text(around.get("type")), _text(around.get("code")))


def _detail(detail: Any) -> str:
    """FastAPI's `detail`: a text, or a list of `{"loc", "msg"}`."""
    if isinstance(detail, str):
        return _cut(detail)
    if isinstance(detail, list):
        return _cut("; ".join(_validation(entry) for entry in detail))
    nested = error_in(detail) if isinstance(detail, dict) else None
    return nested.message if nested else _cut(_json(detail))


def _validation(entry: Any) -> str:
    if not isinstance(entry, dict) or not isinstance(entry.get("msg"), str):
        return _json(entry)
    location = entry.get("loc")
    where = ".".join(str(part) for part in location) if isinstance(location, list) else ""
    return f"{where}: {entry['msg']}" if where else entry["msg"]


def _text(value: Any) -> str | None:
    return None if value is None or isinstance(value, dict | list) else str(value)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return repr(value)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[:MAX_MESSAGE_CHARS] + " …"
