"""Goes on with a run that was cut short: a kill, a power cut, Ctrl-C, a server that failed.

    with TranscriptStore() as store:
        run = resume(store, "3f2a", harness, client=client, decide=unless_it_changes_something)

How the run is rebuilt from its record is in `past.py`; here is what has to be settled before: whether the run is open, whether
the harness is still the one on record, and which calls may be made once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from daneel.errors import UserError
from daneel.harness.definition import Harness
from daneel.harness.inbox import Inbox
from daneel.harness.loop import run
from daneel.harness.past import Decide, Diverged, Past
from daneel.harness.pauses import PAUSES
from daneel.harness.peer import ChatClient
from daneel.harness.recorder import Observer
from daneel.harness.recovery import Attempt
from daneel.harness.run_record import JsonObject, Run
from daneel.harness.safety.approvals import Approver
from daneel.harness.transcript import RunRow, RunTranscript, TranscriptStore


def changes_something(attempt: Attempt) -> bool:
    """Whether making the call twice may do more than making it once: its tool declares an effect other than reading."""
    return not set(getattr(attempt.tool, "effects", ())) <= {"read"}


def unless_it_changes_something(attempt: Attempt) -> bool:
    """Make a call again that only reads; the model is told of any other that its outcome is not known."""
    return not changes_something(attempt)


def check_open(row: RunRow) -> None:
    """Raises UserError when there is nothing to go on with."""
    if row.state == "running":
        raise UserError(f"run {row.id} is running (process {row.process.partition(' ')[0]})")
    if row.state != "interrupted" and row.state not in PAUSES:
        raise UserError(f"run {row.id} is over ({row.state}); only a run that was interrupted, cancelled or invalid can go on")


def differences(row: RunRow, harness: Harness) -> list[str]:
    """Where the harness is not the one that began the run, by the names of its fields and tools."""
    was, now = row.about.get("harness_parts") or {}, harness.parts()
    return [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]


def check_same(row: RunRow, harness: Harness) -> None:
    """Raises UserError, with both hashes and what differs, when the harness is not the one that began the run."""
    was, now = row.about.get("harness_hash"), harness.fingerprint()
    if was != now:
        differing = ", ".join(differences(row, harness)) or "not known in what"
        raise UserError(
            f"run {row.id} was made with another harness: {was} then, {now} now ({differing}). "
            "Put it back as it was, or give --anyway: then what is on record stands, and the run goes on with the new one"
        )


def resume(
    store: TranscriptStore,
    run_id: str,
    harness: Harness,
    *,
    client: ChatClient,
    decide: Decide = unless_it_changes_something,
    anyway: bool = False,
    observer: Observer | None = None,
    approver: Approver | None = None,
    inbox: Inbox | None = None,
    stream: bool | None = None,
) -> Run:
    """Go on with a run under its own id until it stops, as `loop.run` does; its record, from the beginning.

    `decide`: whether a call that had begun, and whose outcome is not known, is made again. `anyway`: the harness may be another
    one, as long as it makes the calls that are on record. `inbox`: where a conversation goes on; without it, it ends with the
    answer that is due. Raises UserError when the run is not open or cannot be rebuilt; it then is as it was.
    """
    row = store.find(run_id)
    check_open(row)
    if not anyway:
        check_same(row, harness)
    past = Past(row.id, store.events(row.id), decide=decide, strict=not anyway)
    if past.is_daneel not in (None, client.is_daneel):
        other = "daneel's" if past.is_daneel else "not daneel's"
        raise UserError(f"run {row.id} was made with a server that is {other}, and this one is of the other kind")
    about = row.about
    try:
        return run(
            harness,
            str(about.get("prompt", "")),
            client=client,
            observer=observer,
            approver=approver,
            transcript=_Reopened(store, row),
            seed=about.get("seed"),
            stream=bool(about.get("stream", True)) if stream is None else stream,
            inbox=past.inbox(inbox) if past.is_conversation or inbox is not None else None,
            past=past,
        )
    except Diverged:
        if not past.awake:
            store.put_back(row)
        raise


@dataclass(frozen=True)
class _Reopened:
    """Where the loop would open a new run, it gets the old one."""

    store: TranscriptStore
    row: RunRow

    def begin(self, run_id: str, about: JsonObject) -> RunTranscript:
        return self.store.reopen(self.row)
