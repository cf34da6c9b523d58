"""What a chat request holds, as typed structs; `requests.py` reads and checks it."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

OnFailedToolCall = Literal["content", "report", "error"]
ToolResultStyle = Literal["auto", "native", "plain"]
ReasoningField = Literal["reasoning", "reasoning_content", "both"]
CacheMode = Literal["read_write", "read", "off"]


class CacheControl(Struct, forbid_unknown_fields=True):
    mode: CacheMode = "read_write"
    pin_s: float | None = None


class StreamOptions(Struct):
    include_usage: bool = False


class FunctionDeclaration(Struct):
    """A tool's declaration. `parameters` is a JSON Schema object; absent means a tool without arguments."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolDeclaration(Struct):
    function: FunctionDeclaration
    type: str = "function"


class ChatRequest(Struct, kw_only=True):
    """A chat request after parsing, field names as on the wire. `messages` are objects, and otherwise unchecked.

    Sampling fields left at `None` were not given: the server's defaults apply. `max_tokens` holds `max_completion_tokens` too.
    `stop` is a list. The two prompt flags are here and no longer in `chat_template_kwargs`, wherever the client put them.
    """

    messages: list[dict[str, Any]]
    model: str | None = None
    tools: list[ToolDeclaration] = []
    tool_choice: str | dict[str, Any] = "auto"
    parallel_tool_calls: bool | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    response_format: dict[str, Any] | None = None
    # what daneel adds
    chat_template_kwargs: dict[str, Any] = {}
    add_generation_prompt: bool | UnsetType = UNSET
    continue_final_message: bool | UnsetType = UNSET
    on_failed_tool_call: OnFailedToolCall = "content"
    tool_result_style: ToolResultStyle = "auto"
    reasoning_field: ReasoningField | None = None
    strict_fields: bool = False
    cache: CacheControl | None = None
    include: list[str] = []
    script: str | list[str] | None = None
    """Scripted engine only: the text to be generated (or the list of its tokens' texts), instead of a model's."""
