"""What is sent otherwise than it is on record, as data for the record, and read from there again.

A list: `[first, end]` for messages that are sent as they are; `{"first", "end", "message", "note"}` for one that stands for
those. What comes behind the last of them is sent as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from daneel.harness.compaction import Note, Piece
from daneel.harness.run_record import JsonObject


class BadView(ValueError):
    """What is on record does not fit this conversation."""


def view_of(pieces: Sequence[Piece]) -> list[Any]:
    """The pieces, with what is not changed by its place only."""
    view: list[Any] = []
    for piece in pieces:
        if piece.is_changed:
            entry: JsonObject = {"first": piece.first, "end": piece.end, "message": piece.message}
            view.append(entry if piece.note is None else {**entry, "note": asdict(piece.note)})
        elif view and isinstance(view[-1], list) and view[-1][1] == piece.first:
            view[-1][1] = piece.end
        else:
            view.append([piece.first, piece.end])
    return view


def pieces_in(data: Mapping[str, Any], messages: Sequence[JsonObject], question_at: int) -> list[Piece]:
    """The pieces of a `compacted` event's data. Raises BadView.

    `question_at`: where the question is now; a harness may have got a system message since.
    """
    try:
        shift = question_at - int(data["question_at"])
        pieces: list[Piece] = []
        for entry in data["view"]:
            if isinstance(entry, list):
                first, end = (entry[0] + shift if entry[0] else 0), entry[1] + shift
                pieces += [Piece(messages[place], place, place + 1) for place in range(first, end)]
            else:
                note = msgspec.convert(entry["note"], Note) if entry.get("note") else None
                pieces.append(
                    Piece(dict(entry["message"]), entry["first"] + shift, entry["end"] + shift, note, is_changed=True)
                )
        if any(not isinstance(piece.message.get("role"), str) for piece in pieces):
            raise BadView("a message has no role")
    except (AttributeError, KeyError, TypeError, IndexError, ValueError, msgspec.ValidationError) as error:
        raise BadView(f"the record of a compaction cannot be read: {type(error).__name__}: {error}") from error
    ends = [0, *(piece.end for piece in pieces)]
    if any(piece.first != before for piece, before in zip(pieces, ends, strict=False)) or ends[-1] > len(messages):
        raise BadView("the record of a compaction does not fit the conversation")
    return pieces
