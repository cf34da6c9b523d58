"""How the tokens of one request are drawn: lengths, sampling, grammar, stops. What cannot be honoured is said here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from daneel.server.constrain import call_grammar
from daneel.server.engines.base import Sampling
from daneel.server.prompt import Prompt
from daneel.server.served_model import ServedModel
from daneel.wire.errors import BadRequest
from daneel.wire.messages import Warning
from daneel.wire.requests import ChatRequest

SCRIPTED = "scripted"


@dataclass(frozen=True, slots=True)
class Decoding:
    """The engine's side of a request. `stops` are stop strings, which only the server can see."""

    max_tokens: int
    sampling: Sampling
    grammar: str | None
    use_cache: bool
    keep_cache: bool
    pin_s: float
    script_ids: list[int] | None
    stops: list[str]


async def plan_decoding(request: ChatRequest, prompt: Prompt, model: ServedModel) -> tuple[Decoding, list[Warning]]:
    """Raises `BadRequest` naming the field."""
    warnings: list[Warning] = []
    cache = request.cache
    decoding = Decoding(
        max_tokens=_max_tokens(request, prompt, model, warnings),
        sampling=_sampling(request, model),
        grammar=_grammar(request, prompt, model, warnings),
        use_cache=cache is None or cache.mode != "off",
        keep_cache=cache is None or cache.mode == "read_write",
        pin_s=(cache.pin_s or 0.0) if cache is not None else 0.0,
        script_ids=await _script_ids(request, model),
        stops=[request.stop] if isinstance(request.stop, str) else list(request.stop or ()),
    )
    return decoding, warnings


def _max_tokens(request: ChatRequest, prompt: Prompt, model: ServedModel, warnings: list[Warning]) -> int:
    room = model.info.context_tokens - len(prompt.ids)
    if request.max_tokens is None:
        return room
    if request.max_tokens > room:
        detail = (
            f"{request.max_tokens} is more than the context has room for: {room} tokens after a prompt of {len(prompt.ids)}"
        )
        warnings.append(Warning("max_tokens", "altered", detail))
    return min(request.max_tokens, room)


def _sampling(request: ChatRequest, model: ServedModel) -> Sampling:
    fields = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed")
    given: dict[str, Any] = dict(model.sampling)
    given |= {name: value for name in fields if (value := getattr(request, name)) is not None}
    if request.logit_bias:
        given["logit_bias"] = _logit_bias(request.logit_bias, len(model.info.pieces))
    if request.logprobs:
        given["logprobs"] = request.top_logprobs or 0
    return Sampling(**given)


def _logit_bias(logit_bias: dict[str, float], num_vocab: int) -> dict[int, float]:
    biases = {}
    for key, bias in logit_bias.items():
        if int(key) >= num_vocab:
            raise BadRequest(f"logit_bias: there is no token {key}, the last one is {num_vocab - 1}", param="logit_bias")
        biases[int(key)] = bias
    return biases


def _grammar(request: ChatRequest, prompt: Prompt, model: ServedModel, warnings: list[Warning]) -> str | None:
    choice = _forced_choice(request)
    if choice is None:
        _warn_unenforced(request, warnings)
        return None
    if model.info.engine == SCRIPTED:
        warnings.append(Warning("tool_choice", "ignored", "the scripted engine writes its script, whatever the choice"))
        return None
    parallel = request.parallel_tool_calls is not False
    try:
        return call_grammar(
            model.family,
            prompt.tools.tools,
            choice=choice,
            parallel=parallel,
            info=model.info,
            starts_in_reasoning=prompt.starts_in_reasoning,
        )
    except ValueError as error:
        raise BadRequest(f"tool_choice {choice!r} cannot be enforced: {error}", param="tool_choice") from error


def _forced_choice(request: ChatRequest) -> str | None:
    """`"required"`, the name of the one tool that must be called, or `None` when the model may choose."""
    choice = request.tool_choice
    if isinstance(choice, str):
        return "required" if choice == "required" else None
    return str(choice["function"]["name"])


def _warn_unenforced(request: ChatRequest, warnings: list[Warning]) -> None:
    if request.tool_choice == "none":
        return
    for index, declaration in enumerate(request.tools):
        if declaration.function.strict:
            field = f"tools[{index}].function.strict"
            warnings.append(Warning(field, "ignored", "arguments are constrained only when tool_choice forces a call"))
    if request.tools and request.parallel_tool_calls is False:
        detail = "the number of calls is limited only when tool_choice forces a call"
        warnings.append(Warning("parallel_tool_calls", "ignored", detail))


async def _script_ids(request: ChatRequest, model: ServedModel) -> list[int] | None:
    if request.script is None:
        return None
    if model.info.engine != SCRIPTED:
        raise BadRequest("script is for the scripted engine; this server runs " + model.info.engine, param="script")
    parts = [request.script] if isinstance(request.script, str) else request.script
    return [token_id for part in parts for token_id in await model.engine.tokenize(part)]
