"""Texts of a known number of tokens, and replies of a known length, so that every server gets and does exactly the same.

A text is made of words that are one token each for the model at hand; our server's `/v1/tokenize` is asked, not believed. A
reply is forced by a bias to repeat one word: then no server stops early, all say the same, and the text comes back as exactly
the tokens it was. What is generated costs the same, whatever it says.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from _client import Body, Deadline, ask
from _servers import ArmFailed

_COMMON = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you were
all her she there would their we him been has when who will no more if out so up said what its about than into them can only
other time new some could these two may first then do any like my now over such our man me even most made after also did many
off before must well back through years much where your way down should because long each just state those people how too
little good world make very year still see own work men day get here old life both between being under three never know same
last another while us might great go come since against right came take used himself few house use place during high without
again home around small found part school every night number city water line young end side whole light name book hand door
table green river white paper stone field music
"""
CANDIDATES = list(dict.fromkeys(_COMMON.split()))


@dataclass(frozen=True)
class Forced:
    """A reply of one word, over and over: `text` is what a server that obeys says."""

    word: str
    token_id: int
    num_tokens: int

    @property
    def text(self) -> str:
        return f" {self.word}" * self.num_tokens

    def fields(self) -> Body:
        """What of a request brings it about."""
        return {"logit_bias": {str(self.token_id): 100}, "max_tokens": self.num_tokens, "temperature": 0}


class Texts:
    """Texts for the model that a server of ours at `url` has. Raises `ArmFailed` if this vocabulary gives no such texts."""

    def __init__(self, url: str, deadline: Deadline) -> None:
        self._url, self._deadline = url, deadline
        spaced = ask(url, "/tokenize", {"text": "".join(f" {word}" for word in CANDIDATES), "pieces": True}, deadline)
        one_token = {
            piece[1:]: token_id
            for piece, token_id in zip(spaced["pieces"], spaced["token_ids"], strict=True)
            if piece[:1] == " "
        }
        self._ids = {word: one_token[word] for word in CANDIDATES if word in one_token}
        if len(self._ids) < 50:
            raise ArmFailed(f"only {len(self._ids)} of the bench's words are one token for this model: too few")
        self._words = list(self._ids)

    def text(self, num_tokens: int, chance: random.Random) -> str:
        """Words of exactly so many tokens."""
        text = " ".join(chance.choices(self._words, k=num_tokens))
        found = ask(self._url, "/tokenize", {"text": text}, self._deadline)["num_tokens"]
        if found != num_tokens:
            raise ArmFailed(f"a text meant to have {num_tokens} tokens has {found} for this model")
        return text

    def forced(self, num_tokens: int, chance: random.Random) -> Forced:
        word = chance.choice(self._words)
        return Forced(word, self._ids[word], num_tokens)
