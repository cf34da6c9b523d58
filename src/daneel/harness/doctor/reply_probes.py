"""Probes of ordinary replies, whole and streamed: their shape, their end, usage, cache, and what becomes of odd fields."""

from __future__ import annotations

import json
from typing import Any

from daneel.harness.doctor.lab import Answer, Lab
from daneel.harness.run_record import JsonObject

_ENVELOPE = ("id", "object", "created", "model", "choices", "usage")
_KNOWN_TOP = {*_ENVELOPE, "system_fingerprint", "service_tier"}
_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "green"]}},
    "required": ["colour"],
    "additionalProperties": False,
}


def whole(lab: Lab) -> bool:
    """A plain reply. False when there is none: then nothing else makes sense."""
    answer = lab.chat("Say OK.")
    if not answer.ok:
        lab.unknown("replies", "whole", answer)
        return False
    envelope = _dict(answer.payloads[0]) if answer.payloads else {}
    missing = [name for name in _ENVELOPE if name not in envelope]
    extra = sorted(set(envelope) - _KNOWN_TOP)
    words = ["as the dialect has it" if not missing else f"without {', '.join(missing)}"]
    words += [f"beside it {', '.join(extra)}"] if extra else []
    lab.found("replies", "whole", {"missing": missing, "extra": extra}, "; ".join(words))
    message = answer.parts()[0] if answer.parts() else {}
    lab.found("replies", "message_fields", sorted(message), ", ".join(sorted(message)))
    usage = answer.prompt_tokens is not None
    lab.found("replies", "usage", usage, "reported" if usage else "not reported")
    lab.found("replies", "fingerprint", answer.system_fingerprint, answer.system_fingerprint or "none")
    return True


def streamed(lab: Lab) -> None:
    """The same as a stream: frames, finish reason, usage, end."""
    answer = lab.chat("Say OK.", stream=True)
    exchange = answer.exchange
    if not exchange.is_stream:
        if answer.ok:
            lab.found("stream", "shape", "whole", "a stream was asked for, a whole reply came")
        else:
            lab.unknown("stream", "shape", answer)
        return
    events = exchange.events()
    comments = sum(event.kind == "comment" for event in events)
    line_end = "CRLF" if b"\r\n" in exchange.body else "LF"
    lab.found(
        "stream",
        "shape",
        {"events": len(events) - comments, "comments": comments, "line_end": line_end},
        f"{len(events) - comments} events, {comments} comments, lines end with {line_end}",
    )
    done = any(event.is_done for event in events)
    lab.found("stream", "done", done, "[DONE] ends it" if done else "it ends without [DONE]")
    reason = answer.finish_reason
    lab.found("stream", "finish_reason", reason, reason or "none comes")
    lab.found("stream", "usage", *_usage_place(answer))
    content_type = exchange.headers.get("content-type", "")
    lab.found("stream", "content_type", content_type, content_type or "none")


def _usage_place(answer: Answer) -> tuple[str | None, str]:
    payloads = [payload for payload in answer.payloads if isinstance(payload, dict)]
    with_usage = [payload for payload in payloads if payload.get("usage")]
    if not with_usage:
        return None, "none, though it was asked for"
    if len(with_usage) > 1:
        return "every chunk", "with every chunk, running"
    if not with_usage[0].get("choices"):
        return "own chunk", "in a chunk of its own"
    return "last chunk", "in the chunk with the finish reason"


def cache(lab: Lab) -> None:
    """The same long prompt twice: are tokens read from the cache, and does it say so?"""
    prompt = "Here is a list. " + " ".join(f"Item {n} is a thing." for n in range(60)) + " Say OK."
    first, second = (lab.chat(prompt, max_tokens=2) for _ in range(2))
    if not (first.ok and second.ok):
        lab.unknown("cache", "cached_tokens", second)
    elif second.cached_tokens is None:
        lab.found("cache", "cached_tokens", None, "it does not say how many tokens were read from its cache")
    else:
        share = f"{second.cached_tokens} of {second.prompt_tokens}"
        lab.found("cache", "cached_tokens", second.cached_tokens, f"{share} the second time, {first.cached_tokens} the first")


def length(lab: Lab) -> None:
    """The length limit: is it kept, and does the finish reason say so?"""
    answer = lab.chat("Count from 1 to 50.", max_tokens=3)
    if not answer.ok:
        lab.unknown("replies", "length", answer)
        return
    used = answer.completion_tokens
    kept = answer.finish_reason == "length" or (used is not None and used <= 3)
    value = {"kept": kept, "finish_reason": answer.finish_reason, "completion_tokens": used}
    told = f"finish reason {answer.finish_reason!r}" + (f", {used} tokens" if used is not None else "")
    lab.found("replies", "length", value, f"max_tokens is {'kept' if kept else 'not kept'}: {told}")


def unknown_field(lab: Lab) -> None:
    """A field that no server knows: refused, reported or ignored without a word?"""
    answer = lab.chat("Say OK.", max_tokens=4, daneel_doctor_unknown_field=True)
    if answer.ok and any("unknown_field" in warning.field for warning in answer.warnings):
        lab.found("fields", "unknown", "reported", "ignored, and listed in warnings")
    elif answer.ok:
        lab.found("fields", "unknown", "ignored", "ignored without a word")
    elif answer.error is not None and answer.exchange.status in (400, 422):
        lab.found("fields", "unknown", "refused", f"refused: {answer.exchange.said()}")
    else:
        lab.unknown("fields", "unknown", answer)


def schema(lab: Lab) -> None:
    """Structured output: a question whose free answer is no such JSON."""
    named = {"name": "answer", "schema": _SCHEMA, "strict": True}
    answer = lab.chat("Tell me about the sea.", response_format={"type": "json_schema", "json_schema": named})
    if answer.error is not None:
        lab.found("fields", "json_schema", "refused", f"refused: {answer.exchange.said()}")
        return
    if not answer.ok:
        lab.unknown("fields", "json_schema", answer)
        return
    if _fits(answer.content):
        lab.found("fields", "json_schema", "honoured", "honoured")
    elif any("response_format" in warning.field for warning in answer.warnings):
        lab.found("fields", "json_schema", "reported", "ignored, and listed in warnings")
    else:
        lab.found("fields", "json_schema", "ignored", f"not honoured: it answers {answer.content[:60]!r}")


def _fits(content: str) -> bool:
    try:
        value = json.loads(content)
    except ValueError:
        return False
    return isinstance(value, dict) and list(value) == ["colour"] and value["colour"] in ("red", "green")


def developer_role(lab: Lab) -> None:
    """The role that has replaced `system` in the newest form of the dialect."""
    messages = [{"role": "developer", "content": "Answer in one word."}, {"role": "user", "content": "Say OK."}]
    answer = lab.chat(messages, max_tokens=8)
    if answer.ok:
        lab.found("fields", "developer_role", "taken", "taken")
    elif answer.error is not None:
        lab.found("fields", "developer_role", "refused", f"refused: {answer.exchange.said()}")
    else:
        lab.unknown("fields", "developer_role", answer)


_LONG_TOKENS = 400


def leaving(lab: Lab) -> None:
    """Is work stopped when the client leaves? The next request's wait tells, where only one is served at a time."""
    usual = lab.chat("Say OK.", max_tokens=1)
    left = lab.chat("Count from 1 to 500, in words.", stream=True, max_tokens=_LONG_TOKENS, leave_after=b"data:")
    after = lab.chat("Say OK.", max_tokens=1)
    if left.exchange.failure == "we left" and after.exchange.status in (429, 503):
        busy: JsonObject = {"waited_s": None, "rest_s": None, "stopped": False}
        said = after.exchange.said()
        lab.found("stream", "leaving", busy, f"the work was not stopped: the next request was refused ({said})")
        return
    if left.exchange.failure != "we left" or not (usual.exchange.ok and after.exchange.ok):
        lab.unknown("stream", "leaving", left if left.exchange.failure != "we left" else after)
        return
    waited_s = max(0.0, after.exchange.duration_s - usual.exchange.duration_s)
    rest_s = _LONG_TOKENS * _seconds_per_token(lab)
    value: JsonObject = {"waited_s": round(waited_s, 2), "rest_s": round(rest_s, 2), "stopped": None}
    told = f"the next request waited {waited_s:.1f} s; the rest of the reply would have taken up to {rest_s:.1f} s"
    if rest_s < 2.0:
        lab.found("stream", "leaving", value, f"{told}: too fast to tell whether the work was stopped")
        return
    value["stopped"] = waited_s < rest_s / 4
    words = "the work was stopped, or goes on beside others" if value["stopped"] else "the work was not stopped"
    lab.found("stream", "leaving", value, f"{words}: {told}")


def _seconds_per_token(lab: Lab) -> float:
    """From the longest reply so far."""
    timed = [(answer.completion_tokens or 0, answer.exchange.duration_s) for answer in lab.answers if answer.ok]
    num_tokens, duration_s = max(timed, default=(0, 0.0))
    return duration_s / num_tokens if num_tokens else 0.0


def thoughts(lab: Lab) -> None:
    """Where thoughts are, over all replies so far. Asks nothing."""
    names = [answer.reasoning_field for answer in lab.answers if answer.reasoning_field]
    inline = [answer for answer in lab.answers if "<think>" in answer.content or "</think>" in answer.content]
    if names:
        lab.found("replies", "reasoning_field", names[0], f"thoughts come in {names[0]}")
    elif inline:
        lab.found("replies", "reasoning_field", "content", "thoughts are left in the content, in <think> tags")
    else:
        lab.found("replies", "reasoning_field", None, "no thoughts were seen")


def _dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}
