"""The parts of a family's description: how it marks reasoning and calls, and how results are told plainly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TOOL_PROMPT = """You can use these tools:
{tools}

To use tools, reply with a JSON array holding every call you need, and nothing else:
[{{"name": "<tool name>", "arguments": {{<arguments>}}}}, ...]

You then get the results and answer the user."""
"""Written for very small models: one short line per tool, and one array, which makes them plan all calls at once."""


@dataclass(frozen=True, slots=True)
class ReasoningSyntax:
    """How reasoning is marked.

    `anywhere`: a block may open anywhere; else only at the start of the output. `labels`: names behind the opening marker
    that belong to it, with the line break that follows. `content_labels`: names that make the block content instead.
    `stray_close`: what a closing marker outside a block is (a special token vanishes, a tag is text).
    """

    open: str
    close: str
    anywhere: bool = False
    labels: tuple[str, ...] = ()
    content_labels: tuple[str, ...] = ()
    stray_close: Literal["text", "control"] = "text"


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """How a call is marked. `open_pad` and `close_pad` are the white space the family writes inside its markers,
    `separator` what it writes between calls; the parser accepts any. `stray_close` as for reasoning.
    """

    open: str
    close: str
    grammar: str
    open_pad: str = ""
    close_pad: str = ""
    separator: str = ""
    stray_close: Literal["text", "control"] = "text"


@dataclass(frozen=True, slots=True)
class PlainStyle:
    """How results are told in plain words to models that do not finish on their native form.

    One user message stands for the whole exchange since the person's last message: `intro`, one `line` per result, then
    `outro` with the question. `call_text` stands for the assistant message that made the calls, `None` leaves it out.
    """

    intro: str = "Tool results:"
    line: str = "{name}: {value}"
    outro: str = "{question}"
    call_text: str | None = None
