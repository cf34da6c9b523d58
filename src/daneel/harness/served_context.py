"""How many tokens a server's context holds, read from whatever the server tells of itself.

| server | where |
|---|---|
| llama-server | `/props`: `default_generation_settings.n_ctx`, which is one slot's |
| Ollama | `/api/ps`: `context_length` of the loaded model; `/api/show`: `num_ctx` among its parameters |
| LM Studio | `/api/v0/models`: `loaded_context_length` |
| vLLM, SGLang | `/v1/models`: `max_model_len` |
| daneel, OpenRouter and others | `/v1/models`: `context_length`, `context_window` and the like |
| LiteLLM | `/model/info`: `max_input_tokens` |

What a model was trained for is not what is served: such fields (`n_ctx_train`, Ollama's `model_info`, LM Studio's
`max_context_length`) are not taken. mlx_lm.server says nothing. Any failure means that it is not known.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from urllib.parse import quote

from daneel.harness.client_errors import ClientError
from daneel.wire.messages import JsonObject

WAIT_S = 2.0
"""For all that is asked together: a run does not wait for what it can do without."""
MAX_TOKENS = 2**31

ENTRY_FIELDS = (
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_window",
    "max_input_tokens",
    "n_ctx",
)
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d+)\s*$", re.MULTILINE)


class Asks(Protocol):
    """What reading takes of a connection. Raises ClientError."""

    def get(self, path: str, *, end_at: float | None, from_root: bool = False) -> Any: ...

    def post(self, path: str, content: JsonObject, *, end_at: float | None, from_root: bool = False) -> Any: ...


def read_context(connection: Asks, model: str, entry: JsonObject | None) -> int | None:
    """The context of the model, asked of its server; None when it cannot be known. `entry`: its entry in `/v1/models`."""
    end_at = time.monotonic() + WAIT_S
    owner = str((entry or {}).get("owned_by") or "").lower()
    listed = _listed(entry or {})
    if owner == "llamacpp":  # a slot may hold less than what is listed
        return _tried(_props, connection, model, end_at) or listed
    if listed is not None or owner == "daneel":
        return listed
    for read in (_props, _ollama, _lm_studio, _litellm):
        found = _tried(read, connection, model, end_at)
        if found is not None:
            return found
    return None


def _tried(read: Callable[[Asks, str, float], int | None], connection: Asks, model: str, end_at: float) -> int | None:
    try:
        return read(connection, model, end_at)
    except (ClientError, ValueError, RecursionError):
        return None


def _listed(entry: JsonObject) -> int | None:
    """The context as the model's entry has it: the least, where several are told."""
    provider, meta = _dict(entry.get("top_provider")), _dict(entry.get("meta"))
    top = next((found for found in (_count(entry.get(name)) for name in ENTRY_FIELDS) if found), None)
    told = [found for found in (top, _count(provider.get("context_length")), _count(meta.get("n_ctx"))) if found]
    return min(told) if told else None


def _props(connection: Asks, model: str, end_at: float) -> int | None:
    # a server that holds several models would load one only to answer this
    props = _dict(connection.get(f"/props?model={quote(model)}&autoload=false", end_at=end_at, from_root=True))
    return _count(_dict(props.get("default_generation_settings")).get("n_ctx")) or _count(props.get("n_ctx"))


def _ollama(connection: Asks, model: str, end_at: float) -> int | None:
    loaded = _dict(connection.get("/api/ps", end_at=end_at, from_root=True)).get("models")
    if not isinstance(loaded, list):
        return None
    for each in _dicts(loaded):
        if model in (each.get("name"), each.get("model")) or f"{model}:latest" in (each.get("name"), each.get("model")):
            found = _count(each.get("context_length"))
            if found is not None:
                return found
    shown = _dict(connection.post("/api/show", {"model": model}, end_at=end_at, from_root=True))
    parameters = shown.get("parameters")
    stated = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return _count(stated[1]) if stated else None


def _lm_studio(connection: Asks, model: str, end_at: float) -> int | None:
    listed = _dict(connection.get("/api/v0/models", end_at=end_at, from_root=True)).get("data")
    return next((_count(each.get("loaded_context_length")) for each in _dicts(listed) if each.get("id") == model), None)


def _litellm(connection: Asks, model: str, end_at: float) -> int | None:
    listed = _dict(connection.get("/model/info", end_at=end_at, from_root=True)).get("data")
    infos = [_dict(each.get("model_info")) for each in _dicts(listed) if each.get("model_name") == model]
    return next((_count(info.get("max_input_tokens")) for info in infos), None)


def _dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _dicts(values: Any) -> Iterator[JsonObject]:
    return (value for value in values if isinstance(value, dict)) if isinstance(values, list) else iter(())


def _count(value: Any) -> int | None:
    """A number of tokens; servers write 0 for one that they do not know."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or not 1 <= value <= MAX_TOKENS:
        return None
    return int(value)
