"""Grammars are written for the model's own tokens, refused when they cannot work, and make parseable calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from daneel.formats import registry
from daneel.formats.base import CallEvent, Tool
from daneel.server.constrain import call_grammar, check_grammar, marker_writer
from daneel.server.engine_process import EngineProcess, EngineSpec
from daneel.server.engines import byte_tokenizer
from daneel.server.engines.base import EngineInfo, Sampling
from daneel.server.grammar_limits import MAX_GRAMMAR_BYTES

INFO = EngineInfo(
    "fake", "1", "fake", 100, byte_tokenizer.PIECES, byte_tokenizer.SPECIAL_IDS, byte_tokenizer.EOG_IDS, "", "", False, None
)
TOOLS = [
    Tool("cur_time", "Get current time"),
    Tool("weather", "", {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}),
]


def test_a_special_token_is_named_by_id_and_text_is_quoted() -> None:
    write = marker_writer(INFO)
    assert write("<tool_call>") == f"<[{byte_tokenizer.encode('<tool_call>')[0]}]>"
    assert write('<not "special">\n') == '"<not \\"special\\">\\n"'
    assert write("a") == '"a"'  # a token, but not a special one
    assert write("x<tool_call>y") == f'"x" {write("<tool_call>")} "y"'


@pytest.mark.parametrize("name", ["hermes", "generic"])
@pytest.mark.parametrize("choice", ["required", "weather"])
def test_every_familys_call_grammar_compiles(name: str, choice: str) -> None:
    grammar = call_grammar(registry.get(name), TOOLS, choice=choice, parallel=True, info=INFO)
    assert ("<[" in grammar) == (name == "hermes")  # the generic format writes an array, without markers


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ("start: missing", 'unknown name: "missing"'),
        ("start: <[300]>", "too large"),
        ("start: /(/", "the grammar cannot be used"),
        ("start: " + '"a" ' * 110_000, "the grammar cannot be used"),
        ("", "the grammar cannot be used"),
        ("// " + "x" * MAX_GRAMMAR_BYTES, "over the limit"),
    ],
)
def test_a_grammar_that_cannot_work_is_refused_in_one_sentence(grammar: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        check_grammar(grammar, num_vocab=300)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.model
def test_the_model_writes_calls_that_parse(smollm2_path: Path) -> None:
    async def run() -> tuple[str, str | None]:
        engine = await EngineProcess.start(EngineSpec("llama.cpp", model_path=str(smollm2_path), context_tokens=512))
        try:
            family = registry.get("hermes")
            grammar = call_grammar(family, TOOLS, choice="required", parallel=True, info=engine.info)
            prompt = "<|im_start|>user\nWeather for 3 days, and the time?<|im_end|>\n<|im_start|>assistant\n"
            token_ids: list[int] = []
            finish = None
            async for output in engine.generate(
                prompt_ids=await engine.tokenize(prompt), max_tokens=150, sampling=Sampling(temperature=0.0), grammar=grammar
            ):
                token_ids += output.token_ids
                finish = output.finish
            ends = set(engine.info.eog_ids)
            return b"".join(engine.info.pieces[token_id] for token_id in token_ids if token_id not in ends).decode(), finish
        finally:
            await engine.close()

    text, finish = asyncio.run(run())
    parser = registry.get("hermes").parser(TOOLS)
    calls = [event for event in [*parser.feed(text), *parser.finish(truncated=False)] if isinstance(event, CallEvent)]
    assert calls, text
    assert finish == "stop"
    assert "".join(call.raw for call in calls).replace("\n", "") == text.replace("\n", "")
    for call in calls:
        assert call.name in ("cur_time", "weather")
        arguments = json.loads(call.arguments)
        assert set(arguments) == ({"days"} if call.name == "weather" else set())
