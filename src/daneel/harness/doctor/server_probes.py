"""Probes of the server itself: which one it is, its models and context, its errors, its keys, what web pages may do with it."""

from __future__ import annotations

from typing import Any

from daneel.harness.client_errors import is_overflow
from daneel.harness.doctor.exchange import Exchange
from daneel.harness.doctor.lab import Lab
from daneel.harness.run_record import JsonObject

CONTEXT_FIELDS = ("context_tokens", "n_ctx", "max_model_len", "loaded_context_length", "context_length", "context_window")
"""What servers call the context they serve, the surest first."""

MAX_OVERFLOW_TOKENS = 40_000
"""Above this context, filling it would cost too much to find out what happens."""

_OWNERS = {"daneel": "daneel", "llamacpp": "llama-server", "vllm": "vLLM", "sglang": "SGLang", "library": "Ollama"}
_ORIGIN = "https://example.org"


def models(lab: Lab) -> None:
    """`/v1/models`: names, owner, context. The model is chosen from it where none was named."""
    exchange = lab.sender.send("GET", "/models")
    body = exchange.json() if exchange.ok else None
    listed = body.get("data", body.get("models")) if isinstance(body, dict) else body
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    names = [str(entry["id"]) for entry in entries if entry.get("id")]
    if not exchange.ok:
        lab.unknown("server", "models", exchange)
    else:
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        lab.found("server", "models", names[:200], shown or "the list is empty")
    if lab.model is None and names:
        lab.model = names[0]
    chosen = next((entry for entry in entries if entry.get("id") == lab.model), entries[0] if entries else {})
    owner = str(chosen.get("owned_by") or "")
    lab.found("server", "owned_by", owner or None, owner or "it does not say")
    _context(lab, {**_dict(chosen.get("meta")), **_dict(chosen.get("daneel")), **chosen}, "/v1/models")
    software = exchange.headers.get("server")
    lab.found("server", "http", software, software or "it does not say")


def software(lab: Lab) -> None:
    """Which server it is, by routes that only some have."""
    props = lab.sender.send("GET", lab.sender.root + "/props")
    told = _dict(props.json()) if props.ok else {}
    _context(lab, {**_dict(told.get("default_generation_settings")), **told}, "/props")
    version = lab.sender.send("GET", lab.sender.root + "/version")
    number = _dict(version.json()).get("version") if version.ok else None
    kind = _OWNERS.get(str(lab.value("server", "owned_by")))
    if kind is None and "default_generation_settings" in told:
        kind = "llama-server"
    build = told.get("build_info") or number
    words = " ".join(str(part) for part in (kind or "not recognised", build) if part)
    lab.found("server", "software", {"kind": kind, "version": build if isinstance(build, str) else None}, words)


def _context(lab: Lab, told: JsonObject, where: str) -> None:
    if lab.value("server", "context") is not None:
        return
    for name in CONTEXT_FIELDS:
        size = told.get(name)
        if isinstance(size, int) and not isinstance(size, bool) and size > 0:
            lab.findings = [found for found in lab.findings if (found.topic, found.name) != ("server", "context")]
            lab.found("server", "context", size, f"{size} tokens, says {where} ({name})")
            return
    if not any((found.topic, found.name) == ("server", "context") for found in lab.findings):
        lab.unknown("server", "context", "neither /v1/models nor /props says it")


def errors(lab: Lab) -> None:
    """What it answers to requests that are wrong."""
    asked = {"max_tokens": 4} if lab.model is None else {"max_tokens": 4, "model": lab.model}
    question = [{"role": "user", "content": "Hi"}]
    wrong: list[tuple[str, Any]] = [
        ("not_json", b'{"messages": ['),
        ("wrong_type", {**asked, "messages": "text"}),
        ("unknown_model", {**asked, "model": "daneel-doctor-no-such-model", "messages": question}),
        ("wrong_in_stream", {**asked, "messages": [{"role": "nobody", "content": 1}], "stream": True}),
    ]
    for name, body in wrong:
        exchange = lab.sender.send("POST", "/chat/completions", body)
        _error(lab, name, exchange)
    _error(lab, "unknown_route", lab.sender.send("GET", "/daneel-doctor-no-such-route"))


def _error(lab: Lab, name: str, exchange: Exchange) -> None:
    if exchange.status is None:
        lab.unknown("errors", name, exchange)
        return
    value = {"status": exchange.status, "shape": error_shape(exchange)}
    lab.found("errors", name, value, f"{exchange.said()} [{value['shape']}]")


def error_shape(exchange: Exchange) -> str:
    """In which of the shapes that are in use it says what is wrong."""
    if exchange.status == 200 and exchange.error() is None:
        return "no error"
    inside = "in the stream: " if exchange.is_stream else ""
    body = next((payload for payload in exchange.payloads() if isinstance(payload, dict)), None)
    if body is None:
        return inside + ("empty" if not exchange.body.strip() else "no JSON")
    if isinstance(body.get("error"), dict):
        return f"{inside}error object: {', '.join(sorted(body['error'])[:8])}"
    for field in ("error", "detail", "message"):
        if field in body:
            return f"{inside}{field}: {'text' if isinstance(body[field], str) else type(body[field]).__name__}"
    return f"{inside}object without error, detail or message"


def keys(lab: Lab) -> None:
    """Whether a wrong key is refused."""
    exchange = lab.sender.send("GET", "/models", headers={"Authorization": "Bearer daneel-doctor-wrong-key"})
    if exchange.status is None:
        lab.unknown("access", "key", exchange)
    elif exchange.status in (401, 403) or (not exchange.ok and lab.value("server", "models") is not None):
        lab.found("access", "key", "checked", f"a wrong key is refused ({exchange.status})")
    elif exchange.ok:
        lab.found("access", "key", "not checked", "any key will do, a wrong one too")
    else:
        lab.found("access", "key", "unclear", f"with a wrong key: {exchange.said()}")


def cors(lab: Lab) -> None:
    """Whether a page of any website may ask it, through the browser of somebody on this network."""
    asked = {"Origin": _ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    exchange = lab.sender.send("OPTIONS", "/chat/completions", headers=asked)
    if exchange.status is None:
        lab.unknown("access", "cors", exchange)
        return
    allowed = exchange.headers.get("access-control-allow-origin")
    if allowed in ("*", _ORIGIN):
        lab.found("access", "cors", allowed, f"pages of any website may ask it (allowed origin: {allowed})")
    else:
        lab.found("access", "cors", allowed, "pages of other websites may not ask it")


def overflow(lab: Lab) -> None:
    """What happens to a prompt that does not fit: refused, and in which words, or silently cut."""
    size = lab.value("server", "context")
    if size is None or size > MAX_OVERFLOW_TOKENS:
        why = "the context's size is not known" if size is None else f"not tried: {size} tokens would have to be sent"
        lab.found("context", "overflow", None, why)
        return
    num_words = size + size // 20 + 64
    answer = lab.chat("Say OK. " + "a b c d " * (num_words // 4), max_tokens=4)
    error = answer.error
    if error is not None and answer.exchange.status is not None:
        known = is_overflow(answer.exchange.status, error)
        words = "which the harness recognises" if known else "which the harness does not recognise"
        lab.found("context", "overflow", "refused" if known else "refused in unknown words", f"refused, in words {words}")
    elif answer.ok and answer.prompt_tokens is not None and answer.prompt_tokens < size:
        lab.found("context", "overflow", "cut", f"silently cut to {answer.prompt_tokens} tokens of at least {num_words}")
    elif answer.ok:
        lab.found("context", "overflow", "taken", f"taken: {answer.prompt_tokens} prompt tokens")
    else:
        lab.unknown("context", "overflow", answer)


def _dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}
