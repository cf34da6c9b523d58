"""Make `.venv` with daneel in it, and show how far the one slow step is: compiling llama.cpp (minutes, once).

Usage: python3 scripts/setup.py EXTRAS [VENV]. Standard library only, since nothing is installed yet. Set `CMAKE_ARGS` to
build for a GPU (see README). Output of pip goes to VENV/setup.log; on failure its end is printed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

STEP = re.compile(rb"\[(\d+)/(\d+)\]")
BAR_WIDTH = 30


def main() -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - this file runs before anything has checked that
        found = sys.version.split()[0]
        print(f"daneel needs Python 3.11 or newer; this is {found}. Try: make PYTHON=python3.12", file=sys.stderr)
        return 2
    extras, venv = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else ".venv")
    if not (venv / "bin" / "python").exists():
        print(f"making {venv} with Python {sys.version.split()[0]}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--upgrade-deps", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    log = venv / "setup.log"
    print(f"installing daneel[{extras}]; llama.cpp is compiled once, which takes minutes", flush=True)
    started = time.monotonic()
    status = install([python, "-m", "pip", "install", "-v", "--disable-pip-version-check", "-e", f".[{extras}]"], log)
    if status:
        print(b"\n".join(log.read_bytes().splitlines()[-30:]).decode(errors="replace"), file=sys.stderr)
        print(
            f"\nThe installation failed; all it said is in {log}. It needs a C++ compiler and a package index.", file=sys.stderr
        )
        return status
    print(f"installed in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def install(command: list[str], log: Path) -> int:
    """Run pip, its output into `log`; on a terminal, a bar follows the compiler's own step counts."""
    on_terminal = sys.stderr.isatty()
    last_shown, started = 0.0, time.monotonic()
    with log.open("wb") as sink, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            sink.write(line)
            step = STEP.search(line)
            now = time.monotonic()
            if step and now - last_shown > (0.2 if on_terminal else 30):
                show(int(step[1]), int(step[2]), now - started, on_terminal)
                last_shown = now
        if on_terminal:
            print("\r" + " " * 79 + "\r", end="", file=sys.stderr, flush=True)
    return pip.returncode


def show(done: int, total: int, seconds: float, on_terminal: bool) -> None:
    filled = BAR_WIDTH * done // max(1, total)
    text = f"  compiling llama.cpp [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {done}/{total} files, {seconds:.0f} s"
    print(f"\r{text}" if on_terminal else text, end="" if on_terminal else "\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
