"""The reply side of the dialect: messages, calls, chunks, usage.

Field names are OpenAI's verbatim; what daneel adds (`failed_tool_calls`, `tool_call_issues`, `repairs`, `warnings`,
`daneel`) is optional and left out when empty, so that plain clients see nothing new. Fields without a default are always
written, also when null. `docs/wire.md` describes the additions.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

FinishReason = Literal["stop", "length", "tool_calls"]
"""Why generation ended; `length` wins over `tool_calls`, which wins over `stop`."""


class FunctionCall(Struct):
    """Name and arguments of a call. `arguments` is JSON text, as the dialect has it, not an object."""

    name: str
    arguments: str


class ToolCall(Struct, omit_defaults=True):
    """A call that could be read. `index` is dense from 0 over the good calls of one message."""

    id: str
    function: FunctionCall
    type: str
    index: int | None = None


class CallError(Struct):
    """Why a call could not be read. `offset` counts characters into the failed call's `raw`."""

    type: Literal["malformed", "truncated"]
    message: str
    offset: int


class FailedToolCall(Struct, omit_defaults=True):
    """A call that could not be read: the model's own text (`raw`, markers included) beside the reason.

    `position` counts all calls of the message, good and failed, in the order written. `token_span` is half-open, in
    generated tokens of this reply.
    """

    id: str
    position: int
    name: str | None
    raw: str
    error: CallError
    format: str
    token_span: tuple[int, int] | None = None


class ToolCallIssue(Struct, omit_defaults=True):
    """A call that can be read, but names no declared tool or breaks its schema. `path` is a JSON pointer into the arguments."""

    tool_call_id: str
    type: Literal["unknown_tool", "invalid_arguments"]
    message: str
    path: str | None = None


class Repair(Struct):
    """A call that was made readable without guessing: what kind of repair, and what the model had written."""

    tool_call_id: str
    kind: str
    raw: str


class Warning(Struct):
    """A request field that was not honoured as given."""

    field: str
    action: Literal["ignored", "altered"]
    detail: str


class Message(Struct, omit_defaults=True):
    """A whole assistant message. `content` is null when the model wrote none."""

    role: str
    content: str | None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] = []
    failed_tool_calls: list[FailedToolCall] = []
    tool_call_issues: list[ToolCallIssue] = []
    repairs: list[Repair] = []


class Delta(Struct, omit_defaults=True):
    """What one chunk adds to the message. Text fields append; lists extend; good calls come whole, in one delta."""

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] = []
    failed_tool_calls: list[FailedToolCall] = []
    tool_call_issues: list[ToolCallIssue] = []
    repairs: list[Repair] = []


class PromptTokensDetails(Struct):
    cached_tokens: int = 0


class CompletionTokensDetails(Struct):
    """The five counts partition the generated tokens: they add up to `completion_tokens`."""

    reasoning_tokens: int = 0
    content_tokens: int = 0
    tool_tokens: int = 0
    failed_tokens: int = 0
    control_tokens: int = 0


class Usage(Struct):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class TopLogprob(Struct):
    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(Struct):
    """One sampled token. `logprob` is the model's own, before temperature, masks and penalties; natural logarithm."""

    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(Struct, omit_defaults=True):
    """Of the tokens that make the content and, as daneel's addition, of those that make calls, good or failed."""

    content: list[TokenLogprob]
    tool_calls: list[TokenLogprob] = []


class Choice(Struct, omit_defaults=True):
    index: int
    finish_reason: FinishReason
    message: Message
    logprobs: ChoiceLogprobs | None = None


class ChunkChoice(Struct, omit_defaults=True):
    index: int
    delta: Delta
    finish_reason: FinishReason | None
    logprobs: ChoiceLogprobs | None = None


class Timings(Struct):
    """Milliseconds spent waiting, evaluating the prompt, and generating."""

    queue_ms: float
    prefill_ms: float
    decode_ms: float


class CacheReport(Struct):
    """How many prompt tokens were read from the KV cache, from which tier, and why not more."""

    read_tokens: int
    source: str | None
    miss: str | None


class DaneelReport(Struct, omit_defaults=True):
    """Everything of the reply that the dialect has no place for. Several fields only when asked for by `include`.

    `choices`: with `n`, in a whole reply, the same of each choice by itself.
    """

    timings: Timings
    cache: CacheReport
    prompt_text: str | None = None
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    raw_text: str | None = None
    token_states: list[str] | None = None
    tool_result_style: str | None = None
    choices: list[DaneelReport] | None = None


class Completion(Struct, omit_defaults=True):
    """The whole reply to a request without `stream`."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[Choice]
    usage: Usage
    warnings: list[Warning] = []
    daneel: DaneelReport | None = None


class Chunk(Struct, omit_defaults=True):
    """One event of a stream. The chunk with the finish reason carries `warnings` and `daneel`; usage has its own."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkChoice]
    usage: Usage | None = None
    warnings: list[Warning] = []
    daneel: DaneelReport | None = None


JsonObject = dict[str, Any]
