"""Replies on record: what a transcript holds of them is read back as it was."""

from __future__ import annotations

import json

from daneel.harness.peer import reply_data, reply_from
from daneel.harness.reply import Reply
from daneel.wire.messages import Message


def test_log_probabilities_are_on_record_where_the_server_gave_them() -> None:
    entries = [{"token": "a", "logprob": -0.5, "top_logprobs": []}]
    plain = Reply(Message(role="assistant", content="a"), "stop")
    told = Reply(Message(role="assistant", content="a"), "stop", logprobs=entries)
    assert "logprobs" not in reply_data(plain)
    assert reply_data(told)["logprobs"] == {"content": entries}
    for reply in (plain, told):
        assert reply_from(json.loads(json.dumps(reply_data(reply)))) == reply
