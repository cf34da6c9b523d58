"""A model family's format as data: what the splitter, the decoding grammar, detection and history all read.

Adding a family whose argument grammar exists is one row in `registry.py` and a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from daneel.formats.base import Parser, Tool
from daneel.formats.call_grammar import ARRAY_LAYOUT, lark_grammar, marked_layout
from daneel.formats.frame_syntax import FrameSyntax, Header
from daneel.formats.framed import FramedSplitter
from daneel.formats.json_args import JsonGrammar
from daneel.formats.markers import Markers
from daneel.formats.scan import ArgumentGrammar
from daneel.formats.splitter import Splitter
from daneel.formats.syntax import CallSyntax, PlainStyle, ReasoningSyntax, ToolPrompt
from daneel.formats.validate import ToolSet

JSON = JsonGrammar()


@dataclass(frozen=True, slots=True)
class Family:
    """One family's format.

    `variant`: "" for the family as it is; else a row that differs in how such models are best told of tools and results, and
    is found by detection or asked for as `name/variant`. `aliases`: other names of the family.
    `framing`: the output is a sequence of messages; `reasoning` and `call` then only say how such messages are written.
    `evidence` / `counter_evidence`: texts a template of the family holds all / none of;
    `max_parameters`: and the model has at most so many. `result_style` and `plain`: how results are told by default, and how
    plainly. `split_role`: the role of a message that holds content which the template would lose beside calls. `tool_prompt`:
    how tools are told in words; `text_calls`, `result_text`: how calls and results are written then. `sampling`: what the
    makers recommend, for requests that do not say. `respell`: where templates differ in how they spell the family's markers,
    gives the row as a template spells them.
    """

    name: str
    call: CallSyntax
    reasoning: ReasoningSyntax | None = None
    framing: FrameSyntax | None = None
    stop_markers: tuple[str, ...] = ()
    control_markers: tuple[str, ...] = ()
    variant: str = ""
    aliases: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    counter_evidence: tuple[str, ...] = ()
    max_parameters: int | None = None
    result_style: Literal["native", "plain"] = "native"
    plain: PlainStyle = field(default_factory=PlainStyle)
    split_role: Literal["assistant", "model"] = "assistant"
    tool_prompt: ToolPrompt = field(default_factory=ToolPrompt)
    text_calls: Literal["marked", "array"] = "marked"
    result_text: str = "<tool_response>\n{name}: {value}\n</tool_response>"
    sampling: Mapping[str, float] = field(default_factory=dict)
    quirks: tuple[str, ...] = ()
    respell: Callable[[str], Family] | None = None

    @property
    def full_name(self) -> str:
        """`name`, or `name/variant`."""
        return f"{self.name}/{self.variant}" if self.variant else self.name

    @property
    def grammar(self) -> ArgumentGrammar:
        """How the text between a call's markers is written."""
        return self.call.grammar

    @property
    def markers(self) -> tuple[str, ...]:
        """Every text that means something to the family's parser or template; in a tool result it must be defused."""
        call = self.call
        found = [*call.opens, *call.closes, *call.body_opens, *call.body_closes, *self.stop_markers, *self.control_markers]
        if self.reasoning is not None:
            found += [*self.reasoning.opens, *self.reasoning.closes]
        if self.framing is not None:
            found += self.framing.markers
        return tuple(dict.fromkeys(marker for marker in found if marker))

    def for_template(self, template: str) -> Family:
        """The row with its markers as the template spells them."""
        return self if self.respell is None else self.respell(template)

    def parser(
        self,
        tools: Sequence[Tool] | ToolSet | None = None,
        *,
        prompt: str = "",
        starts_in_reasoning: bool | None = None,
        rescue: bool = True,
    ) -> Parser:
        """A parser for one generation. `tools` `None`: nothing is known of the tools, so nothing is rescued.

        `prompt`: the rendered prompt, or its end: what it has opened is open. `starts_in_reasoning` overrules it.
        `ValueError` when a tool's schema is no JSON Schema.
        """
        toolset = tools if isinstance(tools, ToolSet) else ToolSet(tools)
        if self.framing is not None:
            opened = Header(0, "reasoning") if starts_in_reasoning else self.framing.opened(prompt)
            return FramedSplitter(self.framing, self.call, toolset, opened=opened, rescue=rescue)
        if starts_in_reasoning is None:
            starts_in_reasoning = self.starts_in_reasoning(prompt)
        markers = Markers.of(self.call, self.reasoning, (*self.stop_markers, *self.control_markers))
        return Splitter(
            markers,
            self.grammar,
            toolset,
            starts_in_reasoning=starts_in_reasoning,
            rescue=rescue,
            own_array=self.text_calls == "array",
        )

    def starts_in_reasoning(self, prompt: str) -> bool:
        """Whether the rendered prompt ends inside a reasoning block that it opened itself.

        An opening marker before the end of a turn, as in a person's question about it, does not count.
        """
        if self.framing is not None:
            begun = self.framing.opened(prompt)
            return isinstance(begun, Header) and begun.kind == "reasoning"
        if self.reasoning is None:
            return False
        tail = min((prompt.rpartition(opener)[2] for opener in self.reasoning.opens if opener in prompt), key=len, default=None)
        if tail is None or any(closer in tail for closer in self.reasoning.closes):
            return False
        turn_ends = (*self.stop_markers, *self.control_markers)
        return not any(marker in tail for marker in turn_ends) if turn_ends else not tail.strip()

    def write_call(self, name: str, arguments: str) -> str:
        """A call as the family writes it, markers included. `arguments` is JSON text of an object."""
        call = self.call
        return f"{call.open}{call.open_pad}{self.grammar.write(name, arguments)}{call.close_pad}{call.close}"

    def write_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        """Calls of one turn, each with its arguments as JSON text, as the family writes them."""
        call = self.call
        if self.grammar.holds_several:
            body = self.grammar.write_several(calls)
        elif call.shared:
            body = call.separator.join(self.grammar.write(name, arguments) for name, arguments in calls)
        else:
            return call.separator.join(self.write_call(name, arguments) for name, arguments in calls)
        return f"{call.open}{call.open_pad}{body}{call.close_pad}{call.close}"

    def write_text_calls(self, calls: Sequence[tuple[str, str]]) -> str:
        """Calls, each with its arguments as JSON text, as they are written where the template has no words for them."""
        return JSON.write_several(calls) if self.text_calls == "array" else self.write_calls(calls)

    def call_grammar(
        self,
        tools: Sequence[Tool],
        *,
        choice: str,
        parallel: bool,
        marker: Callable[[str], str],
        starts_in_reasoning: bool = False,
    ) -> str:
        """Lark text for llguidance that admits only calls. `choice`: `"required"` (any tool) or a tool's name.

        `marker(text)` writes a marker as the tokenizer needs it: a quoted string, or a reference to a special token.
        `ValueError` when the family has no decoding grammar, no tool is given, or `choice` names none.
        """
        array = self.text_calls == "array"
        reasoning_close = self.reasoning.close if self.reasoning and starts_in_reasoning else None
        if self.framing is not None:
            layout = self.framing.layout(self.call, marker, in_thought=reasoning_close is not None)
        else:
            layout = ARRAY_LAYOUT if array else marked_layout(self.call, marker)
        return lark_grammar(
            layout,
            JSON if array else self.grammar,
            tools,
            choice=choice,
            parallel=parallel,
            marker=marker,
            reasoning_close=marker(reasoning_close) if reasoning_close else None,
        )
