"""ATEM blocks: calls as Glimmer writes them.

    <atem:function_calls>
    <atem:invoke name="NAME">
    <atem:parameter name="KEY">VALUE</atem:parameter>
    </atem:invoke>
    </atem:function_calls>

Source: the chat template of Muse Glimmer. A value is raw text, white space included, up to its closing tag; the tool's schema
tells its type. The frame's header names the recipient, which should be the tool that the block invokes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from daneel.formats.base import Tool
from daneel.formats.json_scan import WHITE
from daneel.formats.scan import Head, ScanError, ScannedCall, ScannedFailure
from daneel.formats.typed_value import argument_schema, read_typed
from daneel.formats.validate import ToolSet

_BLOCK, _BLOCK_END = "<atem:function_calls>", "</atem:function_calls>"
_INVOKE_END, _VALUE_END = "</atem:invoke>", "</atem:parameter>"
_TAG = re.compile(
    rf'(?P<block>{_BLOCK})|(?P<invoke><atem:invoke name="(?P<tool>[^"\n]{{1,200}})"\s{{0,9}}(?P<empty>/?)>)|'
    rf'(?P<value><atem:parameter name="(?P<key>[^"\n]{{0,200}})">)|(?P<invoke_end>{_INVOKE_END})|(?P<block_end>{_BLOCK_END})'
)
_BEGUN = re.compile(r'<atem:(?:invoke|parameter) name="[^"\n]{0,200}+(?:"\s{0,9}+/?)?')
_LITERALS = (_BLOCK, '<atem:invoke name="', '<atem:parameter name="', _INVOKE_END, _BLOCK_END)
_STRAY = re.compile(r"<\|message\|>")
"""A header's last marker, which the model writes into names too."""

_State = Literal["start", "block", "invoke", "value", "done"]
_EXPECTED = {
    "start": _BLOCK,
    "block": f'<atem:invoke name="…"> or {_BLOCK_END}',
    "invoke": f'<atem:parameter name="…"> or {_INVOKE_END}',
    "value": f"the closing {_VALUE_END}",
    "done": "nothing more",
}
_FITTING = {"start": ("block", "invoke"), "block": ("invoke", "block_end"), "invoke": ("value", "invoke_end", "block_end")}


class AtemScanner:
    """Scans one block. A tag stays unread until all of it is there."""

    def __init__(self, recipient: str | None, tools: ToolSet) -> None:
        self.error: ScanError | None = None
        self.name: str | None = recipient
        self._recipient = recipient
        self._tools = tools
        self._state: _State = "start"
        self._offset = 0
        self._repairs: list[str] = []
        self._found: list[ScannedCall | ScannedFailure] = []
        self._tool = ""
        self._stray = False
        self._raw: list[str] = []
        self._key = ""
        self._values: dict[str, str] = {}

    @property
    def done(self) -> bool:
        return self._state == "done"

    @property
    def expected(self) -> str:
        return _EXPECTED[self._state]

    def feed(self, text: str, pos: int) -> int:
        base = self._offset - pos
        while pos < len(text) and self._state != "done" and self.error is None:
            before = pos
            pos = self._value(text, pos) if self._state == "value" else self._tags(text, pos, base)
            if pos == before:
                break
        self._offset = base + pos
        return pos

    def finish(self) -> None:
        """Only the block's own end may be missing."""
        if self._state == "block" and self._found:
            self._repairs.append("missing_end_tag")
            self._state = "done"

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        if not self._found:
            return [ScannedFailure(self._recipient, ScanError("the block holds no call", 0), self._offset)]
        last = self._found[-1]
        if self._repairs and isinstance(last, ScannedCall):
            self._found[-1] = ScannedCall(last.name, last.arguments, last.end, (*last.repairs, *self._repairs))
        return self._found

    def _value(self, text: str, pos: int) -> int:
        end = text.find(_VALUE_END, pos)
        if end < 0:
            end = len(text) - _partial(text, pos, _VALUE_END)
            self._raw.append(text[pos:end])
            return end
        self._raw.append(text[pos:end])
        schema = argument_schema(self._tools.schema(self._tool), self._key)
        self._values[self._key] = read_typed("".join(self._raw), schema)
        self._state = "invoke"
        return end + len(_VALUE_END)

    def _tags(self, text: str, pos: int, base: int) -> int:
        while pos < len(text) and text[pos] in WHITE:
            pos += 1
        if pos == len(text):
            return pos
        found = _TAG.match(text, pos)
        if found is None:
            rest = text[pos : pos + 300]
            begun = _BEGUN.fullmatch(rest) or any(literal.startswith(rest) for literal in _LITERALS)
            if not begun and self._state == "block" and self._found:
                self.finish()
            elif not begun or len(rest) == 300:
                self.error = ScanError(f"expected {self.expected}", base + pos)
            return pos
        tag = found.lastgroup or ""
        if tag not in _FITTING[self._state]:
            self.error = ScanError(f"expected {self.expected}", base + pos)
            return pos
        self._take(tag, found, base)
        return pos if self.error is not None else found.end()

    def _take(self, tag: str, found: re.Match[str], base: int) -> None:
        if tag == "value":
            self._key, self._raw, self._state = found["key"], [], "value"
            if self._key in self._values:
                self.error = ScanError(f"the parameter {self._key!r} stands twice", base + found.start())
        elif tag == "invoke":
            if self._state == "start":
                self._repairs.append("missing_open_tag")
            self._tool, self._values, self._state = self._named(found["tool"]), {}, "invoke"
            self._stray = self._tool != found["tool"]
            self.name = self._tool
            if found["empty"]:
                self._end_call(base + found.end())
        elif tag == "invoke_end":
            self._end_call(base + found.end())
        elif tag == "block":
            self._state = "block"
        else:
            if self._state == "invoke":
                self._repairs.append("missing_end_tag")
                self._end_call(base + found.start())
            self._state = "done"

    def _named(self, written: str) -> str:
        """The name that is meant: where a stray marker stands in what else is the recipient's name, that."""
        bare = _STRAY.sub("", written)
        return bare if bare == self._recipient and self._tools.declared(bare) else written

    def _end_call(self, end: int) -> None:
        self._state = "block"
        wrong = self._tools.known and not self._tools.declared(self._tool)
        if "<|" in self._tool:
            self._found.append(ScannedFailure(self._tool, ScanError("a marker stands in the tool's name", 0), end))
            return
        recipient, tool = self._recipient, self._tool
        repairs: tuple[str, ...] = ("marker_in_name",) if self._stray else ()
        if recipient is None:
            repairs = ("missing_recipient",)
        elif recipient != tool:
            if not (tool.startswith(recipient + ".") or recipient.endswith("." + tool)) or wrong:
                message = f"the header names {recipient!r}, the call {tool!r}"
                self._found.append(ScannedFailure(tool, ScanError(message, 0), end))
                return
            repairs = ("recipient",)
        pairs = (f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in self._values.items())
        self._found.append(ScannedCall(tool, "{" + ", ".join(pairs) + "}", end, repairs))


def _partial(text: str, pos: int, marker: str) -> int:
    """How many characters at the end of `text`, from `pos` on, may begin the marker."""
    for size in range(min(len(text) - pos, len(marker) - 1), 0, -1):
        if marker.startswith(text[-size:]):
            return size
    return 0


@dataclass(frozen=True, slots=True)
class AtemGrammar:
    """A frame to the tool's name that holds an ATEM block. `before`, `between`: what is written around the name."""

    before: str
    between: str
    key: str = "atem"
    slack: str = ""
    expected_head: str = _BLOCK
    holds_several: bool = False
    ends_itself: bool = True
    needs_body: bool = True

    def head(self, text: str, pos: int) -> Head:
        while pos < len(text) and text[pos] in WHITE:
            pos += 1
        rest = text[pos : pos + len(_BLOCK)]
        if rest == _BLOCK:
            return "yes"
        return "more" if _BLOCK.startswith(rest) else "no"

    def scanner(self, tools: ToolSet) -> AtemScanner:
        return self.frame_scanner(None, tools)

    def frame_scanner(self, name: str | None, tools: ToolSet) -> AtemScanner:
        return AtemScanner(name, tools)

    def write(self, name: str, arguments: str) -> str:
        lines = [f"{self.before}{name}{self.between}{_BLOCK}", f'<atem:invoke name="{name}">']
        for key, value in json.loads(arguments).items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f'<atem:parameter name="{key}">{text}{_VALUE_END}')
        return "\n".join([*lines, _INVOKE_END, _BLOCK_END])

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        raise ValueError("one frame holds one call")

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        raise ValueError("the format glimmer has no decoding grammar")
