"""The parts of a family's description: how it marks reasoning and calls, and how results are told plainly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from daneel.formats.scan import ArgumentGrammar

TOOL_PROMPT = """You can use these tools:
{tools}

To use tools, reply with a JSON array holding every call you need, and nothing else:
[{{"name": "<tool name>", "arguments": {{<arguments>}}}}, ...]

You then get the results and answer the user."""
"""Written for small models: one short line per tool, and one array, which makes them plan all calls at once."""

MARKED_TOOL_PROMPT = """You can use these tools:
{tools}

To use tools, reply with a call for each, in exactly this form, and nothing else:
{example}

You then get the results and answer the user."""
"""The same for families that have markers of their own, but a template that does not tell them of tools."""


@dataclass(frozen=True, slots=True)
class ReasoningSyntax:
    """How reasoning is marked.

    `anywhere`: a block may open anywhere; else only at the start of the output. `labels`: names behind the opening marker
    that belong to it, with the line break that follows. `content_labels`: names that make the block content instead.
    `stray_close`: what a closing marker outside a block is (a special token vanishes, a tag is text). `also_open`,
    `also_close`: other spellings, read but never written.
    """

    open: str
    close: str
    anywhere: bool = False
    labels: tuple[str, ...] = ()
    content_labels: tuple[str, ...] = ()
    stray_close: Literal["text", "control"] = "text"
    also_open: tuple[str, ...] = ()
    also_close: tuple[str, ...] = ()

    @property
    def opens(self) -> tuple[str, ...]:
        return (self.open, *self.also_open)

    @property
    def closes(self) -> tuple[str, ...]:
        return (self.close, *self.also_close)


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """How a call is marked, and the grammar of what stands between the markers.

    `open` "" : calls have no opening marker; `close` "": none that ends them. `open_pad` and `close_pad` are the white space
    the family writes inside its markers, `separator` what it writes between calls; the parser accepts any. `stray_close` as for
    reasoning. `also_open`, `also_close`: other spellings, read but never written.

    `shared`: one pair of markers holds all calls of a turn, each a body of its own. `body_opens`: texts that begin a body by
    themselves, being part of it. They are where reading goes on behind a broken body, and inside a pair that is still open;
    with `body_opens_anywhere`, they also begin a call whose opening marker is missing, if `unmarked` (default: `grammar`) says
    that a body begins there: text may speak of such tags.
    `body_closes`: texts that end a body by themselves, being part of it: a broken body ends there, a stray one is as a closing
    marker. `bare`: how a body is written that needs no marker, at the start of the output and behind another
    call; `fenced`: a code fence that holds nothing but JSON calls holds calls.
    """

    open: str
    close: str
    grammar: ArgumentGrammar
    open_pad: str = ""
    close_pad: str = ""
    separator: str = ""
    stray_close: Literal["text", "control"] = "text"
    also_open: tuple[str, ...] = ()
    also_close: tuple[str, ...] = ()
    shared: bool = False
    body_opens: tuple[str, ...] = ()
    body_opens_anywhere: bool = False
    unmarked: ArgumentGrammar | None = None
    body_closes: tuple[str, ...] = ()
    bare: ArgumentGrammar | None = None
    fenced: bool = False

    @property
    def opens(self) -> tuple[str, ...]:
        return tuple(marker for marker in (self.open, *self.also_open) if marker)

    @property
    def closes(self) -> tuple[str, ...]:
        return tuple(marker for marker in (self.close, *self.also_close) if marker)


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """One exchange that shows a model how it is done: a question, and tools without arguments as (name, description, result).

    The reply calls those tools that have a result; none, if none has. With an `answer` the exchange goes on with the results
    and ends there.
    """

    question: str
    tools: tuple[tuple[str, str, str | None], ...]
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class ToolPrompt:
    """How tools are told in words, `{tools}` being a line for each. For templates that know no tools; with `preferred`, also
    in place of the template's own words.

    `default_system` stands before it where the request has no system message, as the template would have it. With `examples`,
    the questions themselves are told the tools, behind those exchanges; with `examples_until_results`, only the open question
    is, until it has results, and then the system message.
    """

    text: str = TOOL_PROMPT
    preferred: bool = False
    default_system: str = ""
    examples: tuple[WorkedExample, ...] = ()
    examples_until_results: bool = False


@dataclass(frozen=True, slots=True)
class PlainStyle:
    """How results are told in plain words, to models that do not go on from their native form.

    `text` is a user message behind each turn that called tools: `{results}` (a `line` for each) and `{question}`, the
    person's message again. `merged`: one message takes the place of the person's and holds all results since; the turns that
    made the calls are left out.
    """

    line: str = "{name}: {value}"
    text: str = (
        "Tool results:\n{results}\n\n"
        "Call the next tools if the task needs more. If not, answer the question with a full sentence, "
        "using all these results: {question}"
    )
    merged: bool = False
