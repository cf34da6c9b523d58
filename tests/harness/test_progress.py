"""The deadline's thread ends with its `with` block, whatever interrupts that."""

from __future__ import annotations

import itertools
import random
import signal
import threading

import pytest

from daneel.harness.progress import ProgressWatch


def report_progress_until_interrupted(watch: ProgressWatch, after_s: float) -> None:
    with watch:
        signal.setitimer(signal.ITIMER_VIRTUAL, after_s)
        for count in itertools.count():
            watch.progress(600.0 - count / 1e6)


def test_ctrl_c_at_any_moment_leaves_no_lock_behind() -> None:
    delays = random.Random(1)
    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    try:
        for _ in range(300):
            watch = ProgressWatch(None, stall_s=600.0, end_at=None)
            with pytest.raises(KeyboardInterrupt):
                report_progress_until_interrupted(watch, delays.uniform(1e-4, 1e-3))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert not [thread for thread in threading.enumerate() if thread.name == "daneel-progress-watch"]
