"""A loaded model with everything the request path must know of it: engine, template, family, names."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from daneel.errors import UserError
from daneel.formats import registry
from daneel.formats.family import Family
from daneel.formats.template_traits import TemplateTraits
from daneel.server.encoder import Encoder
from daneel.server.engine_process import EngineProcess
from daneel.server.engines.base import EngineInfo, EngineSpec
from daneel.server.format_report import FormatReport, choose
from daneel.server.prompt_writer import PLAIN_TEMPLATE, find_traits
from daneel.server.self_test import self_test
from daneel.server.template import TemplateRenderer, check_template
from daneel.server.turn_memory import TurnMemory
from daneel.wire.errors import NotFound
from daneel.wire.requests import ReasoningField


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the person who starts the server decides for every request. `family_name` `None`: detected from the template.

    `customise` puts a format of the person's own into the family that was chosen. `sampling`: defaults for requests that leave
    those fields out; they win over the family's.
    """

    name: str
    aliases: tuple[str, ...] = ()
    template_source: str | None = None
    template_variables: Mapping[str, Any] = field(default_factory=dict)
    family_name: str | None = None
    customise: Callable[[Family], Family] | None = None
    reasoning_field: ReasoningField = "reasoning"
    weights_sha256: str | None = None
    sampling: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """Made by `load`, ended by `close`. `end_ids` end a turn: the model's own end tokens and the family's stop markers.

    `traits`: what the template does with messages and tools; if it does not tell of tools, or not well enough, the family's own
    prompt does. `sampling`: what holds for a request that leaves those fields out. `encoder` and `turns` remember texts and
    turns with their tokens.
    """

    name: str
    aliases: frozenset[str]
    engine: EngineProcess
    renderer: TemplateRenderer
    family: Family
    template_variables: Mapping[str, Any]
    traits: TemplateTraits
    sampling: Mapping[str, float]
    template_sha256: str
    weights_sha256: str | None
    reasoning_field: ReasoningField
    stop_ids: list[int]
    end_ids: frozenset[int]
    fingerprint: str
    created: int
    encoder: Encoder
    turns: TurnMemory
    format_report: FormatReport = field(default_factory=FormatReport)

    @classmethod
    async def load(
        cls, spec: EngineSpec, options: ServeOptions, *, version: str, on_progress: Callable[[float], None] | None = None
    ) -> ServedModel:
        """Start the engine and the template's children. Raises `UserError` (also `EngineLoadError`, `TemplateError`)."""
        if options.family_name is not None:
            registry.get(options.family_name)
        if options.template_source is not None:
            await check_template(options.template_source)
        engine = await EngineProcess.start(spec, on_progress=on_progress)
        try:
            return await cls._around(engine, options, version)
        except BaseException:
            await engine.close()
            raise

    @classmethod
    async def _around(cls, engine: EngineProcess, options: ServeOptions, version: str) -> ServedModel:
        info = engine.info
        source = options.template_source or info.chat_template or PLAIN_TEMPLATE
        family, chosen_by = choose(options.family_name, source, num_parameters=info.num_parameters)
        if options.customise is not None:
            family, chosen_by = options.customise(family), "file"
        renderer = await TemplateRenderer.start(source, bos_text=info.bos_text, eos_text=info.eos_text)
        try:
            stop_ids = await _stop_ids(engine, family)
            end_ids = frozenset(info.eog_ids) | frozenset(stop_ids)
            end_texts = [info.pieces[token_id].decode(errors="replace") for token_id in sorted(end_ids)]
            traits = await find_traits(renderer, family, options.template_variables)
            tested = await self_test(renderer, family, traits, variables=options.template_variables)
            return cls(
                name=options.name,
                aliases=frozenset({options.name, *options.aliases}),
                engine=engine,
                renderer=renderer,
                family=family,
                template_variables=options.template_variables,
                traits=traits,
                sampling={**family.sampling, **options.sampling},
                template_sha256=hashlib.sha256(source.encode()).hexdigest(),
                weights_sha256=options.weights_sha256 or info.weights_sha256,
                reasoning_field=options.reasoning_field,
                stop_ids=stop_ids,
                end_ids=end_ids,
                fingerprint=_fingerprint(info, version),
                created=int(time.time()),
                encoder=await Encoder.start(engine.tokenize, end_texts),
                turns=TurnMemory(family, end_texts),
                format_report=FormatReport(chosen_by, traits.knows_tools, tested),
            )
        except BaseException:
            await renderer.close()
            raise

    @property
    def info(self) -> EngineInfo:
        return self.engine.info

    def check_name(self, name: str | None) -> None:
        """Raise `NotFound` when a request names another model."""
        if name and name not in self.aliases:
            raise NotFound(f"there is no model {name!r} here; this server has {self.name!r}", param="model")

    def describe(self) -> dict[str, Any]:
        """The model's entry in `/v1/models`: what a client may know, and what makes two servings comparable."""
        info = self.info
        return {
            "id": self.name,
            "object": "model",
            "created": self.created,
            "owned_by": "daneel",
            "context_length": info.context_tokens,
            "format": self.family.name,
            "format_variant": self.family.variant or None,
            **self.format_report.describe(),
            "quirks": list(self.family.quirks),
            "tool_prompt": "template" if self.traits.knows_tools else "generic",
            "default_sampling": dict(self.sampling),
            "engine": info.engine,
            "engine_version": info.engine_version,
            "quantisation": info.quantisation,
            "num_parameters": info.num_parameters,
            "weights_sha256": self.weights_sha256,
            "template_sha256": self.template_sha256,
            "system_fingerprint": self.fingerprint,
        }

    def forget(self, tenant: str) -> None:
        """Drop what is remembered here of a tenant's turns and texts."""
        self.turns.forget(tenant)
        self.encoder.forget(tenant)

    async def close(self) -> None:
        """End the children; requests in flight fail."""
        await self.engine.close()
        await self.renderer.close()


async def _stop_ids(engine: EngineProcess, family: Family) -> list[int]:
    """Those of the family's stop markers that are one special token in this model: no text can be mistaken for them."""
    special = frozenset(engine.info.special_ids)
    ids = []
    for marker in family.stop_markers:
        try:
            token_ids = await engine.tokenize(marker)
        except ValueError as error:
            raise UserError(f"the stop marker {marker!r} of the format {family.name} cannot be tokenised: {error}") from error
        if len(token_ids) == 1 and token_ids[0] in special and token_ids[0] not in ids:
            ids.append(token_ids[0])
    return ids


def _fingerprint(info: EngineInfo, version: str) -> str:
    system = platform.system().lower() or "unknown"
    return f"daneel-{version}-{info.engine}-{info.engine_version}-{system}-{platform.machine().lower() or 'unknown'}"
