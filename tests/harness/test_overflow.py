"""How servers say that a prompt does not fit: each wording and its figures; other errors are not taken for it."""

from __future__ import annotations

import pytest

from daneel.harness.client_errors import ContextOverflow, ServerBusy, ServerRefused, from_status
from daneel.harness.overflow import Overflow, read_overflow, says_overflow
from daneel.wire.error_body import PeerError, read_error

WORDINGS = {
    "daneel": (
        "the prompt has 900 tokens, but the model's context holds 512 tokens, of which at least one must be left for the reply",
        512,
        900,
    ),
    "llama-server": ("request (9051 tokens) exceeds the available context size (8192 tokens), try increasing it", 8192, 9051),
    "llama-server, older": (
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        None,
        None,
    ),
    "vLLM": (
        "This model's maximum context length is 2048 tokens. However, you requested 2562 tokens (514 in the messages, 2048 in "
        "the completion). Please reduce the length of the messages or completion.",
        2048,
        514,
    ),
    "vLLM, prompt only": (
        "This model's maximum context length is 32768 tokens. However, your request has 40000 input tokens. Please reduce the "
        "length of the input messages.",
        32768,
        40000,
    ),
    "vLLM, max_tokens": (
        "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 2048 tokens and "
        "your request has 14 input tokens (4096 > 2048 - 14).",
        2048,
        14,
    ),
    "vLLM, engine": (
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is "
        "no smaller than the number of text tokens.",
        4096,
        5000,
    ),
    "vLLM, multimodal": (
        "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
        4096,
        25938,
    ),
    "SGLang": ("The input (85050 tokens) is longer than the model's context length (32768 tokens).", 32768, 85050),
    "SGLang, total": (
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 4320 "
        "tokens: 1320 tokens from the input messages and 3000 tokens for the completion.",
        4096,
        1320,
    ),
    "SGLang, scheduler": (
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input or enable "
        "--allow-auto-truncate.",
        59862,
        160062,
    ),
    "Ollama": ("the input length exceeds the context length", None, None),
    "Ollama, cloud": ("prompt too long; exceeded max context length by 23 tokens", None, None),
    "LM Studio": (
        "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of "
        "only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input",
        4096,
        15857,
    ),
    "LM Studio, mid-reply": (
        "Reached context length of 32000 tokens with model (arch: gpt-oss) that does not currently support mid-generation "
        "context overflow.",
        32000,
        None,
    ),
    "oMLX": ("Prompt too long: 41911 tokens exceeds max context window of 32768 tokens", 32768, 41911),
    "vllm-mlx": ("Total prompt tokens (11573) exceeds safe limit (2048) for 1 requests. Reduce prompt length", 2048, 11573),
    "mlx-serve": ("Prompt exceeds maximum context length", None, None),
    "vmlx": ("prompt_too_long: tokenized prompt has 20767 tokens, max prompt/context tokens is 8192", 8192, 20767),
    "LiteLLM": (
        "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - This model's maximum context length is "
        "8192 tokens. However, your messages resulted in 10000 tokens.",
        8192,
        None,
    ),
    "OpenRouter": (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 200000 tokens (198000 of text "
        "input, 2000 in the output). Please reduce the length of either one.",
        131072,
        198000,
    ),
    "text-generation-inference": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 "
        "`max_new_tokens`",
        4096,
        5000,
    ),
    "llama-cpp-python": ("Requested tokens (5000) exceed context window of 4096", 4096, 5000),
    "Mistral": (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32768,
        40000,
    ),
    "Anthropic": ("prompt is too long: 208310 tokens > 200000 maximum", 200000, 208310),
    "Gemini": ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1048576, None),
    "OpenAI": (
        "Input tokens exceed the configured limit of 272,000 tokens. Your messages resulted in 300,000 tokens.",
        272000,
        None,
    ),
}


@pytest.mark.parametrize("name", WORDINGS)
def test_every_servers_wording_is_known_with_its_figures(name: str) -> None:
    message, context, prompt = WORDINGS[name]
    code = "context_length_exceeded" if name == "daneel" else None
    assert isinstance(from_status(400, PeerError(message, code=code), "http://server"), ContextOverflow)
    found = read_overflow(message)
    assert (found.context_tokens, found.prompt_tokens) == (context, prompt)


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "900 of 512", "type": "invalid_request_error", "code": "context_length_exceeded"}}',
        b'{"error": {"code": 400, "message": "no", "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}}',
    ],
)
def test_a_code_or_type_says_it_alone(body: bytes) -> None:
    assert isinstance(from_status(400, read_error(body), "http://server"), ContextOverflow)


@pytest.mark.parametrize("name", ["vLLM", "vLLM, max_tokens", "SGLang, total", "OpenRouter", "text-generation-inference"])
def test_servers_that_count_the_reply_are_told_from_those_that_do_not(name: str) -> None:
    assert read_overflow(WORDINGS[name][0]).counts_reply
    assert not read_overflow(WORDINGS["llama-server"][0]).counts_reply
    assert not read_overflow(WORDINGS["LM Studio"][0]).counts_reply


@pytest.mark.parametrize(
    "message",
    [
        "Invalid JSON in the request body",
        "Conversation roles must alternate user/assistant/user/assistant",
        "model 'x' not found",
        "temperature must be at most 2",
        "The name exceeds the length that is allowed",
        "the request has timed out",
        "Unable to parse tool call arguments in the context of messages[3]",
        "image too large: must be <= 4096 pixels",
    ],
)
def test_other_errors_are_not_taken_for_it(message: str) -> None:
    error = from_status(400, PeerError(message), "http://server")
    assert isinstance(error, ServerRefused)
    assert not isinstance(error, ContextOverflow)


def test_a_busy_server_is_busy_whatever_it_says_of_tokens() -> None:
    error = from_status(429, PeerError("too many tokens per minute for this context window"), "http://server")
    assert isinstance(error, ServerBusy)
    assert says_overflow(error.error.message)


def test_no_figures_are_made_up() -> None:
    assert read_overflow("") == Overflow(None, None, counts_reply=False)
    assert read_overflow("context length is 0 tokens").context_tokens is None
    assert read_overflow("context length is " + "9" * 400).context_tokens is None
