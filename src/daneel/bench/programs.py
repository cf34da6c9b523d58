"""Programs that a model wrote, for a goal's check: run in a sandbox or not at all, and judged by what they return."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from daneel.harness.safety.processes import CommandLimits, CommandResult
from daneel.harness.safety.sandbox import find_sandbox

LIMITS = CommandLimits(timeout_s=10, max_memory_bytes=512 << 20, max_output_bytes=20_000)

_CALL = """import json, sys
sys.path.insert(0, ".")
name, cases = sys.argv[1], json.loads(sys.argv[2])
function = getattr(__import__("program"), name)
results = [function(*case) for case in cases]
print()
print(json.dumps(results))
"""


def run_python(arguments: str, folder: Path) -> CommandResult:
    """Run `python3 ARGUMENTS` in a folder, in the sandbox, for at most 10 seconds. Raises NoSandbox where there is none."""
    return find_sandbox().run(f"python3 -B {arguments}", folder, LIMITS, network=False)


def results_of(program: str, function: str, cases: Sequence[Sequence[Any]]) -> list[Any] | None:
    """What a function of a program's text returns for each case, a list of arguments; all as JSON has it. None when it fails.

    It runs in an empty folder. What would be right is not told to it: a program cannot print what it does not know, so leaving
    the process early, or writing into the test, brings nothing. Raises NoSandbox.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.py").write_text(program, encoding="utf-8", errors="replace")
        result = run_python(f"-I -c {quote(_CALL)} {quote(function)} {quote(json.dumps(list(cases)))}", Path(folder))
    if result.exit_code != 0:
        return None
    try:
        found = json.loads(result.output.strip().splitlines()[-1])
    except (ValueError, IndexError, RecursionError):
        return None
    return found if isinstance(found, list) else None
