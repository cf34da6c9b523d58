"""Constrained decoding for any engine that has logits: llguidance's matchers over the model's own vocabulary."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import llguidance
import llguidance.numpy
import numpy as np
from numpy.typing import NDArray

from daneel.server.grammar_limits import MAX_GRAMMAR_BYTES, grammar_limits

_MAX_COMPILED = 32


class GrammarError(ValueError):
    """The grammar cannot be used, or failed while decoding. The message is llguidance's."""


class Matcher:
    """One sequence's way through a grammar."""

    def __init__(self, native: Any, num_vocab: int) -> None:
        self._native = native
        self._num_vocab = num_vocab
        self._mask = llguidance.numpy.allocate_token_bitmask(1, num_vocab)

    def mask(self, logits: NDArray[np.float32]) -> None:
        """Set every logit the grammar does not allow next to minus infinity, in place. Raises `GrammarError`."""
        llguidance.numpy.fill_next_token_bitmask(self._native, self._mask, 0)
        self._raise_on_error()
        allowed = np.unpackbits(self._mask.view(np.uint8), bitorder="little", count=self._num_vocab).astype(bool)
        logits[~allowed] = -np.inf

    def accept(self, token_id: int) -> None:
        """Follow a sampled token. Raises `GrammarError` when it is not allowed."""
        self._native.consume_token(token_id)
        self._raise_on_error()

    @property
    def done(self) -> bool:
        """Whether nothing more may follow, an end token apart."""
        return bool(self._native.is_stopped())

    def _raise_on_error(self) -> None:
        if self._native.is_error():
            raise GrammarError(f"the grammar failed while decoding: {first_line(self._native.get_error())}")


class GrammarCompiler:
    """Compiles grammars once and hands out copies: agents send the same tools every turn. Safe from several threads."""

    def __init__(self, make_tokenizer: Callable[[], Any], num_vocab: int) -> None:
        self._make_tokenizer = make_tokenizer
        self._num_vocab = num_vocab
        self._tokenizer: Any = None
        self._compiled: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def matcher(self, grammar: str) -> Matcher:
        """A fresh matcher. Raises `GrammarError` on a grammar that is too big or does not compile."""
        with self._lock:
            if grammar not in self._compiled:
                self._compiled[grammar] = self._compile(grammar)
                if len(self._compiled) > _MAX_COMPILED:
                    self._compiled.popitem(last=False)
            self._compiled.move_to_end(grammar)
            return Matcher(self._compiled[grammar].deep_copy(), self._num_vocab)

    def _compile(self, grammar: str) -> Any:
        if len(grammar.encode()) > MAX_GRAMMAR_BYTES:
            raise GrammarError(f"the grammar has {len(grammar.encode())} bytes, over the limit of {MAX_GRAMMAR_BYTES}")
        if self._tokenizer is None:
            # up to a second for a large vocabulary, so only when the first grammar comes
            self._tokenizer = self._make_tokenizer()
        native = llguidance.LLMatcher(self._tokenizer, grammar, log_level=0, limits=grammar_limits())
        if native.is_error():
            raise GrammarError(f"the grammar cannot be used: {first_line(native.get_error())}")
        return native


def first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no reason given"


def marked_pieces(pieces: list[bytes], special_ids: list[int]) -> list[bytes]:
    """Pieces as llguidance takes them: special tokens begin with byte 0xff, so that text never matches them."""
    marked = list(pieces)
    for token_id in special_ids:
        marked[token_id] = b"\xff" + marked[token_id]
    return marked
