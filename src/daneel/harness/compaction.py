"""A conversation made shorter, in tiers. Pure: what is asked of the model for the last tier comes as a function.

    system, question │ turn turn turn turn turn turn │ turn turn turn
                     └─ old: these may become shorter ┘ └─ left alone ┘

1. Results of old turns become a sentence that says what was there; their thoughts go. Oldest first.
2. Old turns become a list with one line for each call, in a message of the model's own, and a user message behind it: roles go
   on alternating, as many templates want. A turn goes whole, so no call loses its result.
3. A list that has become long becomes a summary, which the model writes; where it cannot, the list's oldest lines go.

What a person said last stays word for word wherever it stands. Only where the last turns by themselves are more than there is
room for, their thoughts go and their results are cut (`cut_results`): the beginning and the end stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from daneel.formats.telling import NOTICE_NAME
from daneel.harness.context_policy import ContextPolicy
from daneel.harness.policy import Recovery
from daneel.harness.retelling import calls_of, line_of, shown, without_thoughts
from daneel.harness.run_record import JsonObject
from daneel.harness.safety.untrusted import bounded
from daneel.harness.token_estimate import size_of

Tier = Literal["results", "turns", "summary", "list", "cut"]

WORTH_CHARS = 160
"""A result is left out only if that saves so much."""
LEAST_CUT_CHARS = 400
"""Nothing is cut shorter than this."""
LIST_OVERHEAD_BYTES = 160
"""What a list of old turns takes beside its lines."""


@dataclass(frozen=True, slots=True)
class Note:
    """What old turns came to. `lines` tell of the record's messages from `summarised_to` on, `summary` of those before."""

    turns: int = 0
    summary: str = ""
    summarised_to: int = 0
    lines: tuple[str, ...] = ()
    num_lost: int = 0
    """Lines that had to go without a summary."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One message as it is sent, for the record's messages from `first` up to `end`; for none, where these are the same."""

    message: JsonObject
    first: int
    end: int
    note: Note | None = None
    is_changed: bool = False

    @property
    def num_bytes(self) -> int:
        return size_of(self.message).num_bytes


Summarise = Callable[[Note, int, int, int], str | None]
"""`(note, first, end, num_bytes)`: a summary, at most so long, of what the note tells, which stands for those messages of the
record; None: there is none."""


@dataclass(frozen=True)
class Compactor:
    """How this run's conversation is made shorter. `heard`: places in the record where a person speaks; the last one stays."""

    policy: ContextPolicy
    wordings: Recovery
    heard: Collection[int]
    is_daneel: bool
    repeatable: Collection[str]
    """Tools that may be called again for a result that was left out."""
    summarise: Summarise
    record: Sequence[JsonObject]
    """All messages as they are on record."""

    def compact(
        self, pieces: Sequence[Piece], *, target_bytes: int, list_bytes: int, keep: int
    ) -> tuple[list[Piece], list[Tier]]:
        """Pieces of at most `target_bytes`, if that can be, and the tiers it took. The last `keep` turns are as before."""
        head, turns = split(pieces)
        old, kept = turns[: max(0, len(turns) - keep)], turns[max(0, len(turns) - keep) :]
        fixed = sum(piece.num_bytes for piece in [*head, *_flat(kept)])
        tiers: list[Tier] = []
        if self.policy.shorten_results:
            old, did = self._shorten(old, target_bytes - fixed)
            tiers += ["results"] if did else []
        folded: list[Piece] = []
        if self.policy.fold_turns:
            count = self._num_to_fold(old, target_bytes - fixed)
            tiers += ["turns"] if any(turn[0].note is None for turn in old[:count]) else []
            folded, how = self._shorten_lists(self._folded(old[:count]), list_bytes)
            old = old[count:]
            tiers += how
        return [*head, *folded, *_flat(old), *_flat(kept)], tiers

    def _shorten(self, turns: list[list[Piece]], room: int) -> tuple[list[list[Piece]], bool]:
        total, shorter, did = sum(piece.num_bytes for piece in _flat(turns)), [], False
        for turn in turns:
            if total > room:
                names = calls_of(turn[0].message)
                changed = [self._shortened(piece, names) for piece in turn]
                total -= sum(piece.num_bytes for piece in turn) - sum(piece.num_bytes for piece in changed)
                did = did or changed != turn
                turn = changed
            shorter.append(turn)
        return shorter, did

    def _shortened(self, piece: Piece, calls: Mapping[str, JsonObject]) -> Piece:
        message = piece.message
        if piece.note is not None or piece.first == piece.end:
            return piece
        if message["role"] == "assistant":
            changed = without_thoughts(message)
            return piece if changed is message else replace(piece, message=changed, is_changed=True)
        if message["role"] != "tool":
            return piece
        name = str(calls.get(str(message.get("tool_call_id")), {}).get("name") or "the tool")
        text, whole = str(message.get("content") or ""), str(self.record[piece.first].get("content") or "")
        words = self.wordings
        sentence = words.left_out_result.format(name=name, total=len(whole), start=shown(whole, 80))
        if name in self.repeatable:
            sentence += " " + words.left_out_again.format(name=name)
        if len(sentence) + WORTH_CHARS > len(text):
            return piece
        return replace(piece, message={**message, "content": sentence}, is_changed=True)

    def _num_to_fold(self, turns: list[list[Piece]], room: int) -> int:
        """How many of the oldest turns must become a list."""
        total = sum(piece.num_bytes for piece in _flat(turns))
        if total <= room:
            return 0
        total += LIST_OVERHEAD_BYTES
        for count, turn in enumerate(turns):
            if total <= room:
                return count
            note = self._note_of(turn)
            total -= sum(piece.num_bytes for piece in turn) - sum(
                len(line.encode()) + 1 for line in (note.summary, *note.lines)
            )
        return len(turns)

    def _folded(self, turns: Sequence[Sequence[Piece]]) -> list[Piece]:
        pieces: list[Piece] = []
        note, first, end = Note(), -1, -1
        last_heard = max(self.heard, default=-1)
        for turn in turns:
            first = turn[0].first if first < 0 else first
            note, end = _joined(note, self._note_of(turn)), turn[-1].end
            place = next((place for place, piece in enumerate(turn) if piece.first == last_heard < piece.end), None)
            if place is not None:
                pieces += [self._note_piece(note, first, last_heard), *turn[place:]]
                note, first = Note(), -1
        if first >= 0:
            pieces += [self._note_piece(note, first, end), self._go_on(end)]
        return pieces

    def _note_of(self, turn: Sequence[Piece]) -> Note:
        """What comes of a turn, or of a list of older turns and what stands behind it."""
        told, note = (turn, None) if turn[0].note is None else (turn[1:], turn[0].note)
        calls = calls_of(turn[0].message)
        lines = []
        for piece in told:
            is_heard = any(piece.first <= place < piece.end for place in self.heard)
            message = self.record[piece.first] if piece.first < piece.end else piece.message
            line = line_of(message, calls, is_heard=is_heard)
            if line is not None and not (is_heard and piece.first == max(self.heard)):
                lines.append(line)
        return Note(turns=1, lines=tuple(lines)) if note is None else replace(note, lines=(*note.lines, *lines))

    def _note_piece(self, note: Note, first: int, end: int) -> Piece:
        parts = [note.summary] if note.summary else []
        if note.num_lost:
            parts.append(self.wordings.lost_lines.format(count=note.num_lost))
        text = self.wordings.folded_turns.format(turns=note.turns, list="\n".join([*parts, *note.lines]))
        return Piece({"role": "assistant", "content": text}, first, end, note, is_changed=True)

    def _go_on(self, place: int) -> Piece:
        message: JsonObject = {"role": "user", "content": self.wordings.go_on}
        if self.is_daneel:
            message["name"] = NOTICE_NAME
        return Piece(message, place, place, is_changed=True)

    def _shorten_lists(self, pieces: list[Piece], list_bytes: int) -> tuple[list[Piece], list[Tier]]:
        shorter: list[Piece] = []
        tiers: list[Tier] = []
        for piece in pieces:
            if piece.note is not None and piece.num_bytes > list_bytes:
                note, room = piece.note, list_bytes // 2
                summary = self.summarise(note, piece.first, piece.end, room) if self.policy.summarise else None
                if summary:
                    note = Note(turns=note.turns, summary=summary, summarised_to=piece.end)
                else:
                    note = _without_oldest(note, room)
                tiers.append("summary" if summary else "list")
                piece = self._note_piece(note, piece.first, piece.end)
            shorter.append(piece)
        return shorter, tiers


def cut_results(pieces: Sequence[Piece], target_bytes: int) -> list[Piece]:
    """The pieces without thoughts, and with their longest results cut, until they come to `target_bytes`, if that is enough."""
    over = sum(piece.num_bytes for piece in pieces) - target_bytes
    cut = list(pieces)
    for place, piece in enumerate(pieces):
        plain = without_thoughts(piece.message)
        if over > 0 and plain is not piece.message:
            cut[place] = replace(piece, message=plain, is_changed=True)
            over -= piece.num_bytes - cut[place].num_bytes
    places = [place for place, piece in enumerate(pieces) if piece.message["role"] == "tool"]
    for place in sorted(places, key=lambda place: -pieces[place].num_bytes):
        text = str(cut[place].message.get("content") or "")
        if over <= 0 or len(text) <= LEAST_CUT_CHARS:
            break
        per_char = len(text.encode("utf-8", "replace")) / len(text)
        shorter = bounded(text, max(LEAST_CUT_CHARS, len(text) - round(over / per_char) - LIST_OVERHEAD_BYTES))
        before = cut[place].num_bytes
        cut[place] = replace(cut[place], message={**cut[place].message, "content": shorter}, is_changed=True)
        over -= before - cut[place].num_bytes
    return cut


def split(pieces: Sequence[Piece]) -> tuple[list[Piece], list[list[Piece]]]:
    """What comes before the first reply, and the turns: each begins with a reply, or with a list of older turns."""
    turns: list[list[Piece]] = []
    head: list[Piece] = []
    for piece in pieces:
        if piece.message["role"] == "assistant":
            turns.append([piece])
        else:
            (turns[-1] if turns else head).append(piece)
    return head, turns


def pieces_of(messages: Sequence[JsonObject], changed: Sequence[Piece]) -> list[Piece]:
    """The record's messages as they are sent: what has been changed, then the rest as it is."""
    done = max((piece.end for piece in changed), default=0)
    return [*changed, *(Piece(messages[place], place, place + 1) for place in range(done, len(messages)))]


def _joined(one: Note, other: Note) -> Note:
    if not one.turns:
        return other
    # a summary of what came later would stand before the lines of what came earlier: it becomes a line itself
    lines = (*one.lines, *((other.summary,) if other.summary else ()), *other.lines)
    return replace(one, turns=one.turns + other.turns, lines=lines, num_lost=one.num_lost + other.num_lost)


def _without_oldest(note: Note, num_bytes: int) -> Note:
    """The note with only its newest lines, as many as fit."""
    summary = cut_to(note.summary, num_bytes // 2)
    room, kept = num_bytes - len(summary.encode()), 0
    for line in reversed(note.lines):
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept += 1
    gone = len(note.lines) - kept
    return replace(note, summary=summary, lines=note.lines[gone:], num_lost=note.num_lost + gone)


def cut_to(text: str, num_bytes: int) -> str:
    """The beginning of a text, at most so long."""
    encoded = text.encode("utf-8", "surrogatepass")
    return text if len(encoded) <= num_bytes else encoded[:num_bytes].decode("utf-8", "ignore").rstrip() + " …"


def _flat(turns: Sequence[Sequence[Piece]]) -> list[Piece]:
    return [piece for turn in turns for piece in turn]
