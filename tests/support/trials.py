"""Trials as they come out of the store, made by hand or by hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from daneel.bench.record import Trial


def make_trial(**fields: Any) -> Trial:
    """A scored trial that achieved its goal in two turns, unless `fields` say otherwise."""
    defaults: dict[str, Any] = {
        "measurement": "m",
        "index": 0,
        "harness": "H1",
        "goal": "now",
        "model": "scripted",
        "seed": 1,
        "started_at": "2026-10-14T12:03:27+00:00",
        "run_id": "r",
        "stop_reason": "answered",
        "achieved": True,
        "turns": 2,
        "calls": 2,
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "cached_tokens": 50,
        "duration_s": 1.0,
    }
    return Trial(**{**defaults, **fields})


counts = st.integers(0, 10**6)
scored_trials = st.builds(
    make_trial,
    achieved=st.booleans(),
    turns=st.integers(0, 50),
    calls=st.integers(0, 99),
    prompt_tokens=st.none() | counts,
    completion_tokens=st.none() | counts,
    cached_tokens=st.none() | counts,
    duration_s=st.floats(0, 10**5),
)
unscored_trials = st.builds(
    make_trial,
    achieved=st.none(),
    stop_reason=st.sampled_from(["cancelled", "invalid", "answered"]),
    not_scored=st.sampled_from(["the server went away", "the check raised KeyError"]),
    turns=st.integers(0, 50),
)
any_trials = scored_trials | unscored_trials
