"""Grammars that constrain decoding: a format's call grammar written for one model's tokenizer, and checked before use.

A marker that is one special token of the model must be referred to by its id: llguidance never matches special tokens with
text. Where the model has no such token, the marker is ordinary text.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence

import llguidance

from daneel.formats.base import Tool
from daneel.formats.family import Family
from daneel.server.engines.base import EngineInfo
from daneel.server.grammar_limits import MAX_GRAMMAR_BYTES, grammar_limits


def call_grammar(
    family: Family, tools: Sequence[Tool], *, choice: str, parallel: bool, info: EngineInfo, starts_in_reasoning: bool = False
) -> str:
    """Lark text that admits only calls of `tools`, in `family`'s format. `choice`: `"required"` or a tool's name.

    `parallel` false: exactly one call. `starts_in_reasoning`: the prompt opened a thought, which is to be closed first.
    Raises `ValueError`, one sentence, when the calls cannot be constrained so.
    """
    grammar = family.call_grammar(
        tools, choice=choice, parallel=parallel, marker=marker_writer(info), starts_in_reasoning=starts_in_reasoning
    )
    check_grammar(grammar, num_vocab=len(info.pieces))
    return grammar


def marker_writer(info: EngineInfo) -> Callable[[str], str]:
    """A function that writes a marker for a grammar: `<[id]>` when it is one special token, else a quoted string.

    A marker may also hold a special token (DeepSeek's `<` `｜DSML｜` `invoke`): then it is terms one after the other.
    """
    pieces = ((info.pieces[token_id].decode("utf-8", "replace"), token_id) for token_id in info.special_ids)
    special = {piece: token_id for piece, token_id in pieces if piece}

    def write(text: str) -> str:
        inside = max((piece for piece in special if piece in text), key=len, default=None)
        if inside is None:
            return json.dumps(text, ensure_ascii=False)
        before, after = text.split(inside, 1)
        terms = (write(before) if before else "", f"<[{special[inside]}]>", write(after) if after else "")
        return " ".join(term for term in terms if term)

    return write


def check_grammar(grammar: str, *, num_vocab: int) -> None:
    """Raise `ValueError`, one sentence, when `grammar` is too big, too complex, or no grammar.

    The engine compiles it again over the real vocabulary; here the bytes suffice, so that the check takes milliseconds.
    """
    num_bytes = len(grammar.encode())
    if num_bytes > MAX_GRAMMAR_BYTES:
        raise ValueError(f"the grammar has {num_bytes} bytes, over the limit of {MAX_GRAMMAR_BYTES}")
    error = llguidance.LLMatcher.validate_grammar(grammar, _byte_tokenizer(num_vocab), limits=grammar_limits())
    if error and not error.startswith("WARNING"):
        raise ValueError(f"the grammar cannot be used: {error.strip().splitlines()[0]}")


class _Bytes:
    """A vocabulary in the shape llguidance's wrapper expects: every byte, one end token, and empty tokens up to a size.

    The size is the model's, so that references to special tokens are within range.
    """

    eos_token_id = 256
    bos_token_id = None
    special_token_ids = [256]

    def __init__(self, num_vocab: int) -> None:
        self.tokens = [bytes([value]) for value in range(256)] + [b"<end>"]
        self.tokens += [b""] * (num_vocab - len(self.tokens))

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


@functools.lru_cache(maxsize=4)
def _byte_tokenizer(num_vocab: int) -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Bytes(num_vocab)), slices=[])
