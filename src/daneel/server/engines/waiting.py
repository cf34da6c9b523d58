"""How ggml's threads wait for each other, some hundred times a token. To be called before llama.cpp is loaded.

Left to itself, OpenMP spins: with other work on the cores, where a thread that has the work waits for a core that a spinning
one holds, decoding almost stops. Sleeping at once costs more than the work of a small model. So they spin shortly, then sleep.
"""

from __future__ import annotations

import os

SPIN_COUNT = "2000"
"""Iterations, some microseconds; measured in `docs/log.md`, 2026-12-01."""


def spin_shortly() -> None:
    """Set what OpenMP reads from the environment, unless the user has set it."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)  # GNU's; it counts more than the policy
