"""Names and descriptions as a model proposes them. It is told what tools declare, never their code, and decides nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from daneel.bench.tune.ledger import Tuning
from daneel.bench.tune.wording import Wording, checked
from daneel.harness.client import ClientError
from daneel.harness.definition import Harness, digest
from daneel.harness.reply import Reply

MAX_LINES = 5
MAX_REPLY_CHARS = 4000
MAX_NOTES = 50
"""Of proposals that were refused, in the ledger."""
TIMEOUT_S = 120.0
_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.):])\s*")
_PROMPT = """These tools are declared to an assistant, as JSON:

{declarations}

The tool {tool} is misunderstood, or not used when it should be. Propose 3 {wanted}. Write each on a line of its own, and \
nothing else."""
_WANTED = {
    "name": "other names for it: short, in the manner of the other names, with letters, digits and underscores only",
    "description": "other descriptions for it: one short, plain sentence each that says when to call it and what it gives",
}


class Asked(Protocol):
    """What is needed of a client."""

    def chat(
        self, messages: Sequence[dict[str, Any]], *, params: dict[str, Any] | None = None, timeout_s: float | None = None
    ) -> Reply: ...


class Proposer:
    """Asks a model, once for the same question; its answers are kept in the tuning. A failure is noted, and ends the asking."""

    def __init__(self, client: Asked, tuning: Tuning, save: Callable[[Tuning], None]) -> None:
        self._client, self._tuning, self._save = client, tuning, save
        self._gave_up = False

    def __call__(self, harness: Harness, tool: str, what: str) -> Sequence[Wording]:
        """Wordings that can be tried."""
        key = f"{what} of {tool} {digest([harness.declarations(), harness.system])}"
        if key not in self._tuning.proposals:
            if self._gave_up:
                return ()
            try:
                self._tuning.proposals[key] = self._ask(harness, tool, what)
            except ClientError as error:
                self._gave_up = True
                self._note(f"the proposer failed, and was asked no more: {error}")
                return ()
            self._save(self._tuning)
        lines = self._tuning.proposals[key]

        def refuse(line: str, why: str) -> None:
            self._note(f"proposed as {what} of {tool} and refused: {line!r} ({why})")

        return list(checked(lines, harness, tool, what, "model", refuse))

    def _ask(self, harness: Harness, tool: str, what: str) -> list[str]:
        declarations = json.dumps([each["function"] for each in harness.declarations()], ensure_ascii=False)
        prompt = _PROMPT.format(declarations=declarations, tool=tool, wanted=_WANTED[what])
        reply = self._client.chat(
            [{"role": "user", "content": prompt}],
            params={"max_tokens": 200, "temperature": 0.7, "seed": self._tuning.base_seed % 2**31},
            timeout_s=TIMEOUT_S,
        )
        content = reply.message.content
        return lines_of(content if isinstance(content, str) else "")

    def _note(self, text: str) -> None:
        if text not in self._tuning.notes and len(self._tuning.notes) < MAX_NOTES:
            self._tuning.notes.append(text)


def lines_of(text: str) -> list[str]:
    """The lines of a reply, without marks of a list and quotes around them; a few at most, whatever was said."""
    lines = (_LIST_MARK.sub("", line).strip().strip("\"'`*“”").strip() for line in text[:MAX_REPLY_CHARS].splitlines())
    return [line.encode("utf-8", "replace").decode() for line in lines if line][:MAX_LINES]
