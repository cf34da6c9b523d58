"""Tool calls from pieces, whatever a peer makes of indexes, ids and arguments.

The dialect keys the pieces of a call by `index`, gives `id` and name once, and `arguments` as text in pieces. Peers leave out
any of these, put all parallel calls at index 0, repeat ids, repeat names in every piece, send arguments as an object, or send a
whole call twice. The rules, in order, for the piece of a call:

1. With an index, the latest call of that index is meant; without, the call with that id; else the call written to last. A
   piece without a name whose index is new goes on with the call of its id, or, without an id, with the one written to last.
2. It opens a new call instead if its id is another one than that call's (unless it only goes on with unfinished arguments: some
   peers make up a new id for every piece), or if it names a function and that call is named otherwise, finished, or stood in
   the same list.
3. A whole call sent again in a later chunk, id and all, is the same call.
4. In a whole reply every entry of the list is a call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from daneel.wire.lenient_json import whole_characters
from daneel.wire.messages import FunctionCall, ToolCall


@dataclass(slots=True)
class _Slot:
    index: int | None
    id: str | None = None
    name: str = ""
    parts: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        return whole_characters("".join(self.parts))

    @property
    def finished(self) -> bool:
        return _is_object(self.arguments)


@dataclass(frozen=True, slots=True)
class _Piece:
    index: int | None
    id: str | None
    name: str | None
    arguments: str


class CallPieces:
    """Collects the pieces of one message's calls. `notes` says what was out of the ordinary, each thing once."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self.notes: list[str] = []
        self._new_id = new_id
        self._slots: list[_Slot] = []
        self._last: _Slot | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, pieces: Any, *, whole: bool = False) -> bool:
        """The `tool_calls` of one delta or (`whole`) message: a list, or a single piece. True if it held anything."""
        if pieces is None:
            return False
        listed = pieces if isinstance(pieces, list) else [pieces]
        read = [piece for piece in map(self._read, listed) if piece is not None]
        touched: list[_Slot] = []
        for piece in read:
            slot = None if whole else self._slot_for(piece, touched)
            touched.append(self._write(piece, slot))
        return bool(read)

    def calls(self) -> list[ToolCall]:
        """The calls so far, densely indexed, each with an id of its own. Asking twice gives the same ids."""
        taken: set[str] = set()
        calls = []
        for index, slot in enumerate(self._slots):
            if not slot.name:
                self.note("a tool call without a name")
            if slot.id is None:
                self.note("a tool call without an id: one was made up")
                slot.id = self._new_id()
            elif slot.id in taken:
                self.note(f"the tool call id {slot.id!r} was used twice: the later call got a new one")
                slot.id = self._new_id()
            taken.add(slot.id)
            function = FunctionCall(name=slot.name, arguments=self._settled(slot.arguments))
            calls.append(ToolCall(id=slot.id, function=function, type="function", index=index))
        return calls

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _read(self, piece: Any) -> _Piece | None:
        if not isinstance(piece, dict):
            self.note(f"a tool call that is no object: {piece!r:.80}")
            return None
        function = piece.get("function")
        if not isinstance(function, dict):
            # flat: name and arguments beside the id
            function = piece
        index = piece.get("index")
        if isinstance(index, str) and index.isascii() and index.isdigit():
            index = int(index[:6])
        if isinstance(index, bool) or not isinstance(index, int):
            index = None
        call_id = piece.get("id")
        name = function.get("name")
        return _Piece(
            index=index,
            id=str(call_id) if isinstance(call_id, str | int) and not isinstance(call_id, bool) and call_id != "" else None,
            name=name if isinstance(name, str) and name else None,
            arguments=self._text(function.get("arguments")),
        )

    def _text(self, arguments: Any) -> str:
        if arguments is None:
            return ""
        if isinstance(arguments, str):
            return arguments
        self.note(f"tool call arguments as {_kind(arguments)}, not as text")
        return msgspec.json.encode(arguments).decode()

    def _slot_for(self, piece: _Piece, touched: list[_Slot]) -> _Slot | None:
        """The call that the piece belongs to, or `None` if it opens a new one."""
        slot = self._meant(piece)
        if slot is None:
            return None
        if any(slot is other for other in touched):
            return None if piece.name else slot
        if self._is_repeat(slot, piece):
            return slot
        return None if self._opens_another(slot, piece) else slot

    def _write(self, piece: _Piece, slot: _Slot | None) -> _Slot:
        if slot is None:
            slot = _Slot(index=piece.index)
            self._slots.append(slot)
        elif self._is_repeat(slot, piece):
            self.note("a whole tool call was sent twice")
            return slot
        slot.id = slot.id or piece.id
        slot.name = slot.name or piece.name or ""
        if piece.arguments:
            slot.parts.append(piece.arguments)
        self._last = slot
        return slot

    def _meant(self, piece: _Piece) -> _Slot | None:
        if piece.index is not None:
            for slot in reversed(self._slots):
                if slot.index == piece.index:
                    return slot
            if piece.name is not None:
                return None
            return self._last if piece.id is None else self._with_id(piece.id)
        return (self._with_id(piece.id) if piece.id is not None else None) or self._last

    def _with_id(self, call_id: str) -> _Slot | None:
        return next((slot for slot in reversed(self._slots) if slot.id == call_id), None)

    def _opens_another(self, slot: _Slot, piece: _Piece) -> bool:
        if piece.id is not None and slot.id is not None and piece.id != slot.id:
            goes_on = piece.name is None and piece.arguments != "" and not slot.finished
            if goes_on:
                self.note("the id of a tool call changed while it was written")
            return not goes_on
        if piece.name is None or not slot.name:
            return False
        return piece.name != slot.name or (slot.finished and piece.arguments != "")

    def _is_repeat(self, slot: _Slot, piece: _Piece) -> bool:
        """The open call once more in full: same id, same name if any, same finished arguments."""
        same_id = piece.id is not None and piece.id == slot.id
        same_name = piece.name is None or piece.name == slot.name
        return same_id and same_name and piece.arguments != "" and slot.finished and piece.arguments == slot.arguments

    def _settled(self, arguments: str) -> str:
        """Empty arguments become `{}`; JSON inside a JSON string is unwrapped. Anything else stays as the peer wrote it."""
        if not arguments.strip():
            self.note("empty tool call arguments: read as {}")
            return "{}"
        if arguments.lstrip().startswith('"'):
            try:
                inner = msgspec.json.decode(arguments, type=str)
            except (msgspec.MsgspecError, UnicodeError):
                return arguments
            if _is_object(inner):
                self.note("tool call arguments as JSON inside a string")
                return inner
        if arguments.strip() == "null":
            self.note("tool call arguments null: read as {}")
            return "{}"
        return arguments


def _is_object(text: str) -> bool:
    """Whether the text is one whole JSON object."""
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return False
    try:
        return isinstance(msgspec.json.decode(stripped), dict)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", bool: "a boolean", int: "a number", float: "a number"}.get(
        type(value), "a value"
    )
