"""What a person says while a run is on: taken in at the boundary of the next turn, and what makes a run go on after its answer.

A run with an inbox is a conversation: when it would end, the inbox is asked what comes next, and only when nothing does is it
over. Whatever a person interrupted is brought into a form that servers take: no call without a result, no turn without a reply.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from daneel.harness.conversation import Conversation
from daneel.harness.policy import Recovery
from daneel.harness.recorder import Recorder
from daneel.harness.run_record import CallRecord
from daneel.harness.stop import Stop


class Inbox(Protocol):
    """Where a person's words come in."""

    def take(self) -> list[str]:
        """What has been said since it was last asked, oldest first. Does not wait."""
        ...

    def wait(self, stop: Stop) -> list[str]:
        """What is said next, now that the run would end with `stop`; nothing: let it end. Ctrl-C here ends the run."""
        ...


def hear(said: Iterable[str], conversation: Conversation, recorder: Recorder) -> bool:
    """Each thing said becomes part of the next user message. Whether there was any."""
    texts = [text for text in said if text.strip()]
    for text in texts:
        recorder.event("heard", text=text)
        conversation.hear(text)
    return bool(texts)


def settle(conversation: Conversation, calls: Iterable[CallRecord], policy: Recovery) -> None:
    """Complete a conversation that was interrupted: results for calls that have none, and a reply where none came."""
    results = {call.id: call.result for call in calls if call.result is not None}
    conversation.settle(results, interrupted_call=policy.interrupted_call, interrupted_reply=policy.interrupted_reply)


def go_on(inbox: Inbox, stop: Stop, recorder: Recorder, conversation: Conversation) -> bool:
    """Ask what comes next where a run would end, and take it in. False: nothing, so it ends."""
    recorder.event("paused", reason=stop.reason, detail=stop.detail, answer=stop.answer)
    while said := inbox.wait(stop):
        if hear(said, conversation, recorder):
            return True
    return False
