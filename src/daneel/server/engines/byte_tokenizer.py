"""The scripted engine's vocabulary: the 256 bytes, and known markers as single special tokens."""

from __future__ import annotations

import re

END = "<|end|>"
"""Ends a generation."""

MARKERS = (
    END,
    # ChatML, which this engine's own template uses
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    # hermes
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    # gemma4
    "<|tool_call>",
    "<tool_call|>",
    "<|tool_response>",
    "<tool_response|>",
    "<|tool>",
    "<tool|>",
    "<|turn>",
    "<turn|>",
    "<|channel>",
    "<channel|>",
    "<|think|>",
    '<|"|>',
    "<bos>",
    "<eos>",
)

PIECES = [bytes([value]) for value in range(256)] + [marker.encode() for marker in MARKERS]
SPECIAL_IDS = list(range(256, len(PIECES)))
END_ID = PIECES.index(END.encode())
EOG_IDS = [END_ID, PIECES.index(b"<|im_end|>")]

_ID_OF_MARKER = {marker: PIECES.index(marker.encode()) for marker in MARKERS}
# longest first, so that no marker hides behind one that begins alike
_SPLIT = re.compile("(" + "|".join(re.escape(marker) for marker in sorted(MARKERS, key=len, reverse=True)) + ")")


def encode(text: str) -> list[int]:
    """Markers become their token, everything else its UTF-8 bytes. Raises `ValueError` on a lone surrogate."""
    ids: list[int] = []
    for part in _SPLIT.split(text):
        marker_id = _ID_OF_MARKER.get(part)
        ids += [marker_id] if marker_id is not None else part.encode()
    return ids


def decode(token_ids: list[int]) -> str:
    """The text of ids that are in the vocabulary."""
    return b"".join(PIECES[token_id] for token_id in token_ids).decode(errors="replace")
