"""A served model without processes: an engine that yields given outputs, and a template that is a Python function."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast

from daneel.formats import registry
from daneel.formats.template_traits import TemplateTraits
from daneel.server.encoder import Encoder
from daneel.server.engine_process import EngineProcess
from daneel.server.engines import byte_tokenizer
from daneel.server.engines.base import EngineInfo, StepOutput
from daneel.server.served_model import ServedModel
from daneel.server.template import TemplateRenderer
from daneel.server.turn_memory import TurnMemory


def engine_info(**changes: Any) -> EngineInfo:
    """The byte tokenizer's model, with some of its facts changed."""
    facts: dict[str, Any] = {
        "engine": "fake",
        "engine_version": "1",
        "model_name": "fake",
        "context_tokens": 1000,
        "pieces": byte_tokenizer.PIECES,
        "special_ids": byte_tokenizer.SPECIAL_IDS,
        "eog_ids": byte_tokenizer.EOG_IDS,
        "bos_text": "<bos>",
        "eos_text": byte_tokenizer.END,
        "add_bos": False,
        "chat_template": None,
    }
    return EngineInfo(**{**facts, **changes})


def step(text: str, *, finish: Any = None, **facts: Any) -> StepOutput:
    """One step that generates `text`."""
    return StepOutput(
        1, byte_tokenizer.encode(text), **{"cached_tokens": 0, "prefill_done": 0, "prefill_total": 0, **facts}, finish=finish
    )


class FakeEngine:
    """Yields `outputs` (an exception among them is raised), and after them waits for ever if `hangs`."""

    def __init__(
        self, outputs: Sequence[StepOutput | Exception] = (), *, hangs: bool = False, info: EngineInfo | None = None
    ) -> None:
        self.info = info or engine_info()
        self.outputs = list(outputs)
        self.hangs = hangs
        self.ready = True
        self.asked: dict[str, Any] = {}
        self.num_open = 0
        self.started = asyncio.Event()

    async def tokenize(self, text: str) -> list[int]:
        return byte_tokenizer.encode(text)

    async def generate(self, **asked: Any) -> AsyncGenerator[StepOutput, None]:
        self.asked = asked
        self.num_open += 1
        self.started.set()
        try:
            for output in self.outputs:
                if isinstance(output, Exception):
                    raise output
                await asyncio.sleep(0)
                yield output
            if self.hangs:
                await asyncio.Event().wait()
        finally:
            self.num_open -= 1


class FakeRenderer:
    """Writes `role: content` lines; keeps what it was given."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    async def render(self, messages: Sequence[Mapping[str, Any]], **asked: Any) -> str:
        self.asked = {"messages": list(messages), **asked}
        return "".join(f"{message['role']}: {message.get('content') or ''}\n" for message in messages)


def fake_model(engine: FakeEngine, *, family: str = "hermes", template_knows_tools: bool = True, **changes: Any) -> ServedModel:
    """A model named `fake` around `engine`."""
    facts: dict[str, Any] = {
        "name": "fake",
        "aliases": frozenset({"fake", "alias"}),
        "engine": cast(EngineProcess, engine),
        "renderer": cast(TemplateRenderer, FakeRenderer()),
        "family": registry.get(family),
        "template_variables": {},
        "traits": TemplateTraits(knows_tools=template_knows_tools),
        "sampling": {},
        "template_sha256": "0" * 64,
        "weights_sha256": None,
        "reasoning_field": "reasoning",
        "stop_ids": [],
        "end_ids": frozenset(engine.info.eog_ids),
        "fingerprint": "daneel-test",
        "created": 0,
        "encoder": Encoder(engine.tokenize, [byte_tokenizer.END]),
        "turns": TurnMemory(registry.get(family), [byte_tokenizer.END]),
    }
    return ServedModel(**{**facts, **changes})
