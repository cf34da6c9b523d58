"""How servers say that a prompt does not fit their context, and the figures they give with it.

| server | wording |
|---|---|
| daneel, OpenAI, Groq | code `context_length_exceeded` |
| llama-server | type `exceed_context_size_error`: the request exceeds the available context size |
| vLLM, OpenRouter | maximum context length is N tokens; longer than the maximum model length; max_tokens is too large |
| SGLang | is longer than the model's context length; Input length (N tokens) exceeds the maximum allowed length |
| Ollama | exceeds the context length; prompt too long; exceeded max context length (most of its versions cut silently) |
| LM Studio | Trying to keep the first N tokens when context the overflows; Reached context length of N tokens |
| mlx servers | Prompt too long: N tokens exceeds max context window; prompt_too_long; exceeds safe limit |
| LiteLLM | ContextWindowExceededError, around whatever the server behind it said |
| text-generation-inference | `inputs` tokens + `max_new_tokens` must be <= N |
| Gemini, Anthropic | input token count (N) exceeds; prompt is too long: N tokens > N maximum |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

CODES = ("context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "prompt_too_long")
"""What stands as `code` or `type` of an error and says it all."""

_WORDING = re.compile(
    r"context[ _-]?(length|window|size)|maximum context|max_model_len|exceed.{0,40}context|context.{0,40}exceed"
    r"|context.{0,12}overflow|prompt[ _](is )?too[ _]long|too many tokens|n_ctx|longer than the maximum|max_seq_len"
    r"|exceeds? the maximum allowed length|maximum (model|sequence) length|prompt tokens \(\d+\) exceeds"
    r"|token count.{0,40}exceed|input tokens? exceeds?|tokens.{0,30}must be <=|max_new_tokens.{0,3} must be",
    re.IGNORECASE,
)

_NUMBER = r"([\d,_]*\d)"
_CONTEXT_FIGURES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\(context length {_NUMBER}\)",
        rf"context (?:length|window|size) (?:is |of |= ?)(?:only )?{_NUMBER}",
        rf"context (?:length|window|size) \({_NUMBER}",
        rf"maximum (?:model|sequence|context) length (?:is |of )?\(?{_NUMBER}",
        rf"{_NUMBER} maximum context length",
        rf"maximum allowed length \({_NUMBER}",
        rf"maximum number of tokens allowed \({_NUMBER}",
        rf"n_ctx\W{{1,4}}{_NUMBER}",
        rf"max_(?:seq|model)_len\W{{1,4}}{_NUMBER}",
        rf"safe limit \({_NUMBER}\)",
        rf"must be <= {_NUMBER}",
        rf"> {_NUMBER} maximum",
        rf"configured limit of {_NUMBER}",
        rf"context (?:holds|tokens is) {_NUMBER}",
    )
]
_PROMPT_FIGURES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_NUMBER} in the messages",
        rf"prompt has {_NUMBER} tokens",
        rf"{_NUMBER} tokens from the input",
        rf"{_NUMBER} of text input",
        rf"{_NUMBER} input tokens",
        rf"request \({_NUMBER} tokens\)",
        rf"input (?:length )?\({_NUMBER}(?: tokens)?\)",
        rf"prompt tokens \({_NUMBER}\)",
        rf"prompt \((?:total )?length {_NUMBER}\)",
        rf"keep the first {_NUMBER} tokens",
        rf"prompt (?:is )?too long: {_NUMBER} tokens",
        rf"prompt contains {_NUMBER} tokens",
        rf"requested tokens \({_NUMBER}\)",
        rf"{_NUMBER} `inputs` tokens",
    )
]
_COUNTS_REPLY = re.compile(
    r"in the completion|for the completion|in the output|max(_completion|_new)?_tokens|requested? \d+ output tokens",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Overflow:
    """What an overflow error tells: the context, the prompt's tokens, and whether the room for the reply was counted too."""

    context_tokens: int | None
    prompt_tokens: int | None
    counts_reply: bool


def says_overflow(message: str, *, kind: str | None = None, code: str | None = None) -> bool:
    """Whether an error says that the prompt does not fit. `kind` is its `type`."""
    return code in CODES or kind in CODES or _WORDING.search(message) is not None


def read_overflow(message: str) -> Overflow:
    """The figures in the wording of an overflow error."""
    context = _figure(_CONTEXT_FIGURES, message)
    prompt = _figure(_PROMPT_FIGURES, message)
    return Overflow(context, prompt, _COUNTS_REPLY.search(message) is not None)


def _figure(patterns: list[re.Pattern[str]], message: str) -> int | None:
    for pattern in patterns:
        found = pattern.search(message)
        if found is not None:
            number = int(re.sub(r"[,_]", "", found[1]))
            return number if 0 < number < 2**53 else None
    return None
