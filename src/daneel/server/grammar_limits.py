"""How large and how slow a grammar may be: grammars are made from schemas that clients send."""

from __future__ import annotations

import llguidance

MAX_GRAMMAR_BYTES = 512 * 1024
"""A request with a hundred tools makes about 100 kB."""


def grammar_limits() -> llguidance.LLParserLimits:
    """llguidance counts work, not time, so the limits hold on any machine; its figures are about 50k lexer units and 20k
    items a millisecond, so compiling stays under a second or so and one mask under 20 ms."""
    return llguidance.LLParserLimits(
        initial_lexer_fuel=1_000_000,
        step_lexer_fuel=200_000,
        step_max_items=50_000,
        max_lexer_states=100_000,
        max_grammar_size=100_000,
        verbose_errors=False,
    )
