"""The generic format: for models whose template knows no tools, and for templates that daneel does not know."""

from __future__ import annotations

from dataclasses import replace

from daneel.formats.families.hermes import THINK, TOOL_CALL_TAGS
from daneel.formats.families.worked_example import EXAMPLE, OVERCALLS, SHORT_TOOL_PROMPT
from daneel.formats.family import Family
from daneel.formats.strict_json import BareJsonGrammar
from daneel.formats.syntax import PlainStyle, ToolPrompt

GENERIC = "generic"

# models whose template knows no tools: daneel tells them how to call, and reads an array, the tags, or bare and fenced JSON
_GENERIC = Family(
    name=GENERIC,
    aliases=("ollama-generic", "thinking-generic"),
    call=replace(TOOL_CALL_TAGS, bare=BareJsonGrammar(joints=("[", ", ", "]"), odd_shape="bare_json")),
    reasoning=THINK,
    result_style="plain",
    text_calls="array",
)

ROWS: tuple[Family, ...] = (
    # HuggingFaceTB/SmolLM2-135M-Instruct: calls only behind a worked example, answers when question and results are one
    # message. Sampling: the model's card
    replace(
        _GENERIC,
        variant="example",
        evidence=("named SmolLM, trained by Hugging Face",),
        tool_prompt=ToolPrompt(
            text=SHORT_TOOL_PROMPT,
            default_system="You are a helpful AI assistant named SmolLM, trained by Hugging Face",
            examples=(replace(EXAMPLE, answer=None),),
            examples_until_results=True,
        ),
        plain=PlainStyle(text="{question}\n\nTool results:\n{results}", merged=True),
        sampling={"temperature": 0.2, "top_p": 0.9},
        quirks=(OVERCALLS,),
    ),
    _GENERIC,
)
