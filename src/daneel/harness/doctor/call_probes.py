"""Probes of tool calls: their shape whole and streamed, tool choice, and what becomes of calls that are broken, cut or text."""

from __future__ import annotations

from daneel.harness.doctor.lab import ADD, CUR_DATE, CUR_TIME, SAVE, Answer, Lab
from daneel.harness.run_record import JsonObject

_CLOCK = (CUR_TIME, CUR_DATE)
_WANT_TIME = "What time is it? Call the tool cur_time."
_WANT_BOTH = "What is the current time and the current date? Call both tools, cur_time and cur_date, at once."
_SECRET = "7391"
_BROKEN_CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1,, "b" 2}\n</tool_call>'
_TEXT_CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'
_ECHO = "You are a printer. Print exactly the following text and nothing else, without calling any tool:\n\n"


def whole(lab: Lab) -> None:
    """One call in a whole reply."""
    answer = lab.chat(_WANT_TIME, tools=_CLOCK)
    calls = [piece for pieces in answer.call_pieces() for piece in pieces]
    if not calls:
        lab.unknown("calls", "whole", _no_call(answer))
        return
    call = calls[0]
    arguments = _function(call).get("arguments", _function(call))
    kind = {str: "text", dict: "object", type(None): "null"}.get(type(arguments), type(arguments).__name__)
    content = answer.parts()[0].get("content", "absent")
    shape: JsonObject = {
        "id": _id_kind([str(call["id"])] if call.get("id") else []),
        "index": "index" in call,
        "type": call.get("type"),
        "arguments": kind,
        "content": content if content in (None, "", "absent") else "text",
        "finish_reason": answer.finish_reason,
    }
    words = f"{shape['id']}; {'with' if shape['index'] else 'without'} index; arguments as {kind}; finish reason "
    lab.found("calls", "whole", shape, words + f"{answer.finish_reason!r}; content {_content_words(content)}")


def streamed(lab: Lab) -> None:
    """Two calls in a stream: pieces, indexes, ids, names."""
    answer = lab.chat(_WANT_BOTH, tools=_CLOCK, stream=True)
    pieces = [piece for listed in answer.call_pieces() for piece in listed]
    names = answer.call_names
    if not pieces:
        lab.unknown("calls", "streamed", _no_call(answer))
        lab.unknown("calls", "parallel", "no call came")
        return
    indexes = [piece.get("index") for piece in pieces if _function(piece).get("name")]
    in_pieces = len(pieces) > len(names)
    shape: JsonObject = {
        "pieces": in_pieces,
        "indexes": indexes,
        "id": _id_kind([str(piece["id"]) for piece in pieces if piece.get("id")]),
        "name_repeated": sum(bool(_function(piece).get("name")) for piece in pieces) > len(names),
        "finish_reason": answer.finish_reason,
    }
    how = "in pieces" if in_pieces else "each whole, in one piece"
    words = f"{how}; indexes {indexes}; {shape['id']}; finish reason {answer.finish_reason!r}"
    lab.found("calls", "streamed", shape, words)
    both = {"cur_time", "cur_date"} <= set(names)
    told = (
        "two calls in one reply" if both else f"asked for both, it called {', '.join(names)} (the model's choice, or a limit)"
    )
    lab.found("calls", "parallel", both, told)


def choice(lab: Lab) -> None:
    """`tool_choice`: is each of its values honoured?"""
    none = lab.chat(_WANT_TIME, tools=_CLOCK, tool_choice="none", max_tokens=64)
    _judge_choice(lab, "none", none, none.ok and not none.message.tool_calls)
    required = lab.chat("Say hello to me, please.", tools=_CLOCK, tool_choice="required")
    _judge_choice(lab, "required", required, bool(required.call_names))
    named = {"type": "function", "function": {"name": "cur_date"}}
    forced = lab.chat(_WANT_TIME, tools=_CLOCK, tool_choice=named)
    _judge_choice(lab, "named", forced, forced.call_names[:1] == ["cur_date"])


def _judge_choice(lab: Lab, name: str, answer: Answer, honoured: bool) -> None:
    if answer.error is not None:
        lab.found("tool_choice", name, "refused", f"refused: {answer.exchange.said()}")
    elif not answer.ok:
        lab.unknown("tool_choice", name, answer)
    elif name == "none" and honoured and not _calls_when_free(lab):
        lab.found("tool_choice", name, None, "not found out: the model calls nothing when it may")
    else:
        called = ", ".join(answer.call_names) or "nothing"
        lab.found(
            "tool_choice",
            name,
            "honoured" if honoured else "ignored",
            "honoured" if honoured else f"not honoured: it called {called}",
        )


def _calls_when_free(lab: Lab) -> bool:
    return lab.value("calls", "whole") is not None


_FEW_TOKENS = 20


def truncated(lab: Lab) -> None:
    """A call that the length limit cuts off: streamed, since that is how the harness asks."""
    prompt = "Save this text with save_text: " + "the quick brown fox jumps over the lazy dog and runs away " * 6
    answer = lab.chat(prompt, tools=[SAVE], tool_choice="required", max_tokens=_FEW_TOKENS, stream=True)
    if answer.error is not None and answer.exchange.status == 400:
        answer = lab.chat(prompt, tools=[SAVE], max_tokens=_FEW_TOKENS, stream=True)
    if answer.ok and not _was_cut(answer):
        lab.unknown("calls", "truncated", f"nothing was cut off: finish reason {answer.finish_reason!r}")
        return
    _fate(lab, "truncated", answer, "save_text")


def _was_cut(answer: Answer) -> bool:
    """Whether the limit ended it, also where the finish reason does not say so."""
    if answer.finish_reason == "length" or answer.message.failed_tool_calls:
        return True
    if answer.message.tool_calls:
        return not answer.message.tool_calls[-1].function.arguments.rstrip().endswith("}")
    return (answer.completion_tokens or 0) >= _FEW_TOKENS


def malformed(lab: Lab) -> None:
    """A call in tags that is no JSON. The model is asked to write it; some write it well instead, and that cannot be told apart
    from a repair that is not reported."""
    answer = lab.chat(_ECHO + _BROKEN_CALL, tools=[ADD], **_script(lab, _BROKEN_CALL))
    _fate(lab, "malformed", answer, '"b" 2')


def as_text(lab: Lab) -> None:
    """A call well written in tags of one family: whether this server reads it, or leaves it as text, depends on its parser."""
    answer = lab.chat(_ECHO + _TEXT_CALL, tools=[ADD], **_script(lab, _TEXT_CALL))
    _fate(lab, "as_text", answer, '"add"')


def _script(lab: Lab, text: str) -> JsonObject:
    """Our own server without a model says what a request tells it to."""
    fingerprints = [answer.system_fingerprint or "" for answer in lab.answers[:1]]
    return {"script": [text]} if any("-scripted-" in name for name in fingerprints) else {}


def _fate(lab: Lab, name: str, answer: Answer, trace: str) -> None:
    """What became of a call that was written in some way; `trace` is a piece of it that text would show."""
    if answer.error is not None:
        lab.found("calls", name, "error", f"the whole request fails: {answer.exchange.said()}")
    elif answer.message.failed_tool_calls:
        failed = answer.message.failed_tool_calls[0]
        lab.found("calls", name, "reported", f"reported as a failed call with its text and why: {failed.error.message}")
    elif answer.message.tool_calls:
        arguments = answer.message.tool_calls[0].function.arguments
        lab.found(
            "calls", name, "call", f"a call with the arguments {arguments[:80]!r}, finish reason {answer.finish_reason!r}"
        )
    elif trace in answer.content:
        lab.found("calls", name, "text", "left as text in the content")
    elif not answer.ok:
        lab.unknown("calls", name, answer)
    elif not answer.content.strip():
        lab.found("calls", name, "lost", f"lost: no call, no text, finish reason {answer.finish_reason!r}")
    else:
        lab.unknown("calls", name, f"the model wrote something else: {answer.content[:60]!r}")


def results(lab: Lab) -> None:
    """With which form of results does this model, behind this server, finish?"""
    asked = {"role": "user", "content": "What is the secret number? Use get_secret, then tell me the number."}
    call = _history_call("{}")
    native = lab.chat([asked, call, {"role": "tool", "tool_call_id": "call00001", "content": _SECRET}], tools=[_GET_SECRET])
    told = f"get_secret returned: {_SECRET}\n\nNow answer the question: {asked['content']}"
    plain = lab.chat([asked, {"role": "assistant", "content": "I call get_secret."}, {"role": "user", "content": told}])
    worked = {"native": native.ok and _SECRET in native.content, "plain": plain.ok and _SECRET in plain.content}
    if native.error is not None:
        lab.found("results", "native", "refused", f"`tool` messages are refused: {native.exchange.said()}")
    else:
        lab.found("results", "native", worked["native"], _finish_words("`tool` messages", native, worked["native"]))
    lab.found("results", "plain", worked["plain"], _finish_words("plain messages", plain, worked["plain"]))
    style = "native" if worked["native"] else "plain" if worked["plain"] else None
    lab.found("results", "style", style, style or "neither: the harness's own setting is used")


def _finish_words(form: str, answer: Answer, worked: bool) -> str:
    if worked:
        return f"with {form} the model states the result"
    said = ", ".join(answer.call_names) and f"calls {', '.join(answer.call_names)}"
    return f"with {form} the model {said or f'says {answer.content[:60]!r}'}, not the result"


def history(lab: Lab) -> None:
    """What a history may hold: arguments that are no JSON (some servers fail for ever after), and arguments as an object."""
    for name, arguments in (("broken_arguments", '{"a": 1, "b"'), ("object_arguments", {"a": 1})):
        messages = [
            {"role": "user", "content": "Hi"},
            _history_call(arguments),
            {"role": "tool", "tool_call_id": "call00001", "content": "Error: the call could not be read."},
            {"role": "user", "content": "Say OK."},
        ]
        answer = lab.chat(messages, tools=[_GET_SECRET], max_tokens=8)
        if answer.ok:
            lab.found("history", name, "taken", "taken")
        elif answer.error is not None:
            lab.found("history", name, "refused", f"refused: {answer.exchange.said()}")
        else:
            lab.unknown("history", name, answer)


_GET_SECRET: JsonObject = {
    "type": "function",
    "function": {
        "name": "get_secret",
        "description": "Get the secret number",
        "parameters": {"type": "object", "properties": {}},
    },
}


def _history_call(arguments: object) -> JsonObject:
    function = {"name": "get_secret", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "call00001", "type": "function", "function": function}]}


def _no_call(answer: Answer) -> Answer | str:
    if not answer.ok:
        return answer
    return f"the model called nothing; it said {answer.content[:60]!r}"


def _function(piece: JsonObject) -> JsonObject:
    function = piece.get("function")
    return function if isinstance(function, dict) else piece


def _id_kind(ids: list[str]) -> str:
    if not ids:
        return "no id"
    example = "".join("9" if char.isdigit() else "a" if char.isalpha() else char for char in ids[0])
    return "ids that repeat" if len(set(ids)) < len(ids) else f"ids of {len(ids[0])} characters ({example[:8]}…)"


def _content_words(content: object) -> str:
    return {None: "null", "": '""', "absent": "absent"}.get(content if isinstance(content, str | None) else "", "with text")
