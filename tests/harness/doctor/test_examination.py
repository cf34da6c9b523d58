"""The examination against peers that behave in known ways: what it finds is what they do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.scripted_server import HANG, Reply, ScriptedServer, calls, chunk, error, failed_call, raw, sse, text

from daneel.harness.doctor.examination import PROBES, Examination, examine
from daneel.harness.doctor.exchange import Sender

Peer = Callable[[dict[str, Any]], Reply]


def examined(peer: Peer, *, limit_s: float = 20.0, model: str | None = None, **server: Any) -> Examination:
    with ScriptedServer(peer, **{"owned_by": "someone", **server}) as running:
        sender = Sender(f"{running.url}/v1", limit_s=limit_s)
        try:
            return examine(sender, model, on_progress=lambda *_: None)
        finally:
            sender.close()


def values(found: Examination) -> dict[tuple[str, str], Any]:
    return {(finding.topic, finding.name): finding.value for finding in found.findings}


def last_text(request: dict[str, Any]) -> str:
    return str(request["messages"][-1]["content"])


def offered(request: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in request.get("tools") or []]


def good_peer(request: dict[str, Any]) -> Reply:
    """A server, and a model, that do everything as they are asked."""
    messages = request.get("messages")
    if not isinstance(messages, list) or request.get("model") != "scripted":
        return error(400 if not isinstance(messages, list) else 404, "no such thing")
    if messages[0]["role"] == "nobody":
        return error(400, "messages[0].role: nobody")
    if any(isinstance(call["function"]["arguments"], str) and not _is_json(call["function"]["arguments"])
           for message in messages for call in message.get("tool_calls") or []):  # fmt: skip
        return error(400, "arguments are not JSON")
    if "daneel_doctor_unknown_field" in request:
        return error(400, "unknown field daneel_doctor_unknown_field")
    if request.get("response_format"):
        return text('{"colour": "red"}')
    if request["max_tokens"] <= 3:
        usage = {"prompt_tokens": _length(request), "completion_tokens": request["max_tokens"], "total_tokens": 0}
        return text("1,", finish_reason="length").but(usage={**usage, "prompt_tokens_details": {"cached_tokens": 7}})
    said, tools = last_text(request), offered(request)
    choice = request.get("tool_choice", "auto")
    if "save_text" in tools:
        return failed_call('{"text": "the', name="save_text", error_type="truncated", finish_reason="length")
    if "1,, " in said:
        return failed_call("broken")
    if "Print exactly" in said:
        return calls(("add", {"a": 1, "b": 2}))
    if messages[-1]["role"] == "tool" or "returned: 7391" in said:
        return text("It is 7391.")
    if choice == "none" or not tools:
        return text("Paris." if messages[-1]["role"] == "assistant" else "OK.", reasoning="Say it.").but(
            usage={"prompt_tokens": _length(request), "completion_tokens": 1, "total_tokens": 0}
        )
    if isinstance(choice, dict):
        return calls((choice["function"]["name"], {}))
    return calls(("cur_time", {}), ("cur_date", {})) if "Call both" in said else calls(("cur_time", {}))


def _is_json(value: str) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


def _length(request: dict[str, Any]) -> int:
    """Tokens of a prompt, which is the shorter for each thing that template parameters leave out."""
    off = (request.get("chat_template_kwargs") or {}).get("add_generation_prompt") is False
    return 100 - 5 * (request.get("add_generation_prompt") is False) - 5 * off


def test_a_good_server_is_found_to_be_good() -> None:
    found = examined(good_peer)
    assert found.ended_early is None
    got = values(found)
    expected = {
        ("server", "models"): ["scripted"],
        ("replies", "reasoning_field"): "reasoning",
        ("stream", "done"): True,
        ("stream", "usage"): "own chunk",
        ("calls", "parallel"): True,
        ("calls", "truncated"): "reported",
        ("calls", "malformed"): "reported",
        ("calls", "as_text"): "call",
        ("tool_choice", "none"): "honoured",
        ("tool_choice", "required"): "honoured",
        ("tool_choice", "named"): "honoured",
        ("results", "style"): "native",
        ("history", "broken_arguments"): "refused",
        ("history", "object_arguments"): "taken",
        ("template", "add_generation_prompt"): "honoured",
        ("template", "chat_template_kwargs"): "honoured",
        ("template", "continue_final_message"): "honoured",
        ("cache", "cached_tokens"): 7,
        ("fields", "unknown"): "refused",
        ("fields", "json_schema"): "honoured",
        ("access", "key"): "not checked",
        ("access", "cors"): None,
    }
    assert {key: got[key] for key in expected} == expected
    assert got["errors", "unknown_model"]["status"] == 404
    assert got["calls", "whole"]["arguments"] == "text"
    assert got["calls", "streamed"]["indexes"] == [0, 1]
    assert 30 <= found.num_requests <= 45
    profile = found.profile()
    assert profile.tool_choice == {"none": True, "required": True, "named": True}
    assert (profile.result_style, profile.reasoning_field, profile.template_variables) == ("native", "reasoning", True)
    assert json.loads(json.dumps(found.to_dict()))["findings"]["results"]["style"]["value"] == "native"


def ignoring_peer(request: dict[str, Any]) -> Reply:
    """A server that ignores what it does not know and loses what it cannot read; a model that wants results told plainly."""
    messages = request.get("messages")
    said, tools = last_text(request) if isinstance(messages, list) and messages else "", offered(request)
    if "1,, " in said:
        return text("")
    if "Print exactly" in said:
        return text('<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>')
    if "save_text" in tools:
        return text("", finish_reason="length")
    if "returned: 7391" in said:
        return text("The number is 7391.")
    if "get_secret" in tools:
        return calls(("get_secret", {}))
    if tools:
        return calls(("cur_time", {})).but(message=_odd_calls())
    return text("<think>Hm.</think>OK.")


def _odd_calls() -> dict[str, Any]:
    function = {"name": "cur_time", "arguments": {}}
    return {"role": "assistant", "tool_calls": [{"index": 0, "type": "function", "function": function}]}


def test_a_careless_server_is_found_out() -> None:
    found = examined(ignoring_peer)
    got = values(found)
    expected = {
        ("calls", "malformed"): "lost",
        ("calls", "truncated"): "lost",
        ("calls", "as_text"): "text",
        ("tool_choice", "none"): "ignored",
        ("tool_choice", "required"): "honoured",  # it calls something whatever is said
        ("tool_choice", "named"): "ignored",
        ("results", "style"): "plain",
        ("template", "add_generation_prompt"): "ignored",
        ("fields", "unknown"): "ignored",
        ("fields", "json_schema"): "ignored",
        ("replies", "reasoning_field"): "content",
    }
    assert {key: got[key] for key in expected} == expected
    shape = got["calls", "whole"]
    assert (shape["id"], shape["index"], shape["arguments"], shape["content"]) == ("no id", True, "object", "absent")
    assert got["errors", "unknown_model"] == {"status": 200, "shape": "no error"}
    assert found.profile().result_style == "plain"
    said = "\n".join(found.recovery)
    assert "A malformed call is lost by the server" in said
    assert "the harness finds it and makes it" in said


def test_a_call_that_is_cut_off_and_called_finished_is_lost_all_the_same() -> None:
    def swallowing(request: dict[str, Any]) -> Reply:
        usage = {"prompt_tokens": 9, "completion_tokens": request.get("max_tokens", 1), "total_tokens": 29}
        return text("").but(usage=usage) if "save_text" in offered(request) else ignoring_peer(request)

    assert values(examined(swallowing))["calls", "truncated"] == "lost"

    def short(request: dict[str, Any]) -> Reply:
        return calls(("save_text", {"text": "x"})) if "save_text" in offered(request) else ignoring_peer(request)

    assert values(examined(short))["calls", "truncated"] is None


def test_a_server_that_takes_only_the_template_s_own_variables_and_lists_no_model() -> None:
    def choosy(request: dict[str, Any]) -> Reply:
        assert request.get("model", "") is not None  # a model that is not known is left out, not null
        if "add_generation_prompt" in (request.get("chat_template_kwargs") or {}):
            return error(404, {"error": "got multiple values"})
        return text("OK.")

    found = examined(choosy, models=error(200, {"object": "list", "data": []}))
    got = values(found)
    assert (found.model, got["template", "chat_template_kwargs"], got["server", "models"]) == (None, "taken", [])
    assert found.profile().template_variables is None


def test_a_server_that_always_goes_on_with_a_last_message_of_the_assistant_s() -> None:
    def counting(request: dict[str, Any]) -> Reply:
        words = sum(len(str(message.get("content")).split()) for message in request["messages"])
        usage = {"prompt_tokens": 20 + words, "completion_tokens": 1, "total_tokens": 0}
        return text("OK.").but(usage=usage)

    got = values(examined(counting))
    assert got["template", "continue_final_message"] == "always"
    assert got["template", "add_generation_prompt"] == "ignored"


def test_a_server_that_goes_on_working_for_a_client_that_left() -> None:
    left: list[str] = []

    def busy(request: dict[str, Any]) -> Reply:
        if "500" in last_text(request):
            left.append("")
            return sse(chunk({"content": "one"}), HANG, done=False)
        return error(503, "busy") if left else ignoring_peer(request)

    assert values(examined(busy))["stream", "leaving"]["stopped"] is False


def test_the_context_and_a_prompt_that_is_too_long() -> None:
    listed = error(200, {"data": [{"id": "scripted", "owned_by": "vllm", "max_model_len": 2048}]})

    def refusing(request: dict[str, Any]) -> Reply:
        if len(json.dumps(request)) > 4000:
            return error(400, "This model's maximum context length is 2048 tokens")
        return text("OK.")

    got = values(examined(refusing, models=listed))
    assert (got["server", "context"], got["context", "overflow"]) == (2048, "refused")
    assert got["server", "software"]["kind"] == "vLLM"

    def cutting(request: dict[str, Any]) -> Reply:
        usage = {"prompt_tokens": min(2000, len(json.dumps(request)) // 2), "completion_tokens": 1, "total_tokens": 1}
        return text("OK.").but(usage=usage)

    found = examined(cutting, models=listed)
    assert values(found)["context", "overflow"] == "cut"
    assert any("cut without a word" in sentence for sentence in found.recovery)


def test_a_key_that_is_checked() -> None:
    def models(request: dict[str, Any]) -> Reply:
        return error(401, "wrong key")

    found = examined(models, models=error(401, "wrong key"))
    assert found.ended_early == "it gives no reply to a plain question"
    assert "401: wrong key" in next(f.words for f in found.findings if (f.topic, f.name) == ("server", "models"))


def test_a_server_that_is_not_there_and_one_that_says_nothing() -> None:
    sender = Sender("http://127.0.0.1:9/v1", limit_s=5.0)
    found = examine(sender, None, on_progress=lambda *_: None)
    assert (found.ended_early, found.num_requests) == ("the server cannot be reached", 1)
    seen: list[str] = []

    def silent(request: dict[str, Any]) -> Reply:
        seen.append("")
        return text("OK.") if len(seen) == 1 else raw(HANG)

    found = examined(silent, limit_s=0.2)
    assert found.ended_early == "3 requests in a row took too long"
    assert len(found.findings) >= 5


ODD = st.sampled_from(
    [
        text("OK."),
        text(""),
        calls(("cur_time", "{broken")),
        calls(("", {})),
        failed_call("x"),
        error(500, b""),
        error(400, {"error": {"message": {"error": "deep"}}}),
        error(200, []),
        error(200, {"choices": [None, 3]}),
        error(200, {"choices": [{"message": {"tool_calls": ["x", {"function": None}]}, "finish_reason": 4}], "usage": "lots"}),
        error(200, {"choices": [{"message": {"content": 3, "tool_calls": {"id": 3}}, "finish_reason": "stop"}]}),
        raw(b""),
        raw(b"\xff\xff"),
        raw(b"data: [DONE]\n\n", headers={"Content-Type": "text/event-stream"}),
        sse({"choices": [{"delta": {"tool_calls": [{"index": "x", "id": 7}]}}]}, chunk({}, finish_reason="stop")),
        sse({"choices": []}, {"usage": {"prompt_tokens": -1}}, b"data: {oops\n\n"),
    ]
)


@settings(max_examples=20)
@given(replies=st.lists(ODD, min_size=1, max_size=12), models=ODD)
def test_nothing_that_a_server_sends_breaks_the_examination(replies: list[Reply], models: Reply) -> None:
    count = [0]

    def odd(request: dict[str, Any]) -> Reply:
        count[0] += 1
        return text("OK.") if count[0] == 1 else replies[count[0] % len(replies)]

    found = examined(odd, models=models, model="scripted")
    assert found.ended_early is None
    json.dumps(found.to_dict())
    assert len({(finding.topic, finding.name) for finding in found.findings}) == len(found.findings)
    assert len(found.findings) > len(PROBES)
