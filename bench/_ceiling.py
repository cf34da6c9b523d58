"""This machine's ceilings, as JSON: python bench/_ceiling.py THREADS. A process of its own, so that BLAS gets its threads."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

SIZE = 2048
ARRAY_BYTES = 128 * 2**20
REPEATS = 6

if __name__ == "__main__":
    num_threads = int(sys.argv[1])
    for name in ("OPENBLAS", "OMP", "MKL", "VECLIB"):
        os.environ["VECLIB_MAXIMUM_THREADS" if name == "VECLIB" else f"{name}_NUM_THREADS"] = sys.argv[1]
    import numpy as np  # reads those variables

    left, right = (np.random.default_rng(seed).random((SIZE, SIZE), dtype=np.float32) for seed in (1, 2))
    product = np.empty((SIZE, SIZE), dtype=np.float32)
    flops = 0.0
    for _ in range(REPEATS):
        began = time.perf_counter()
        np.matmul(left, right, out=product)
        flops = max(flops, 2 * SIZE**3 / (time.perf_counter() - began))

    # the maximum of an array far larger than any cache: numpy reads it with vector instructions and without the lock
    parts = [np.ones(ARRAY_BYTES // 4, dtype=np.float32) for _ in range(num_threads)]
    bandwidth = 0.0
    for _ in range(REPEATS):
        threads = [threading.Thread(target=part.max) for part in parts]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bandwidth = max(bandwidth, num_threads * ARRAY_BYTES / (time.perf_counter() - began))
    print(json.dumps({"flops_per_s": flops, "bytes_per_s": bandwidth}))
