"""Gating: tools for debugging, which are of no use before there is a program, hidden until code was written.

daneel measure examples/debugging.py --serve qwen2.5-coder-1.5b --trials 5
daneel compare examples/debugging.py:always examples/debugging.py:hidden --serve qwen2.5-coder-1.5b

`always` shows them from the first turn on; the others differ in how a closed gate looks, see docs/tools.md. The programs that a
model writes run in a sandbox or not at all.
"""

from pathlib import Path
from shlex import quote

from daneel import Gate, Harness, SafetyPolicy, ToolFailure, goal, tool
from daneel.bench.end_state import files_of
from daneel.bench.programs import results_of, run_python
from daneel.harness.safety.confinement import NoSandbox

PROGRAM = "program.py"
TRACE = """import sys
def told(frame, event, argument):
    if frame.f_code.co_filename.endswith("program.py") and event in ("line", "return"):
        print(f"line {frame.f_lineno}: {frame.f_locals}"[:200])
    return told
sys.path.insert(0, ".")
from program import *
sys.settrace(told)
eval(sys.argv[1])
"""
EVALUATE = """import sys
sys.path.insert(0, ".")
from program import *
print(repr(eval(sys.argv[1])))
"""


def output_of(script: str, expression: str) -> str:
    """What a script prints about an expression of the program, in the sandbox."""
    if not Path(PROGRAM).exists():
        raise ToolFailure("There is no program yet. Call write_program first.")
    try:
        result = run_python(f"-I -c {quote(script)} {quote(expression)}", Path.cwd())
    except NoSandbox as error:
        raise ToolFailure(f"Programs cannot be run here: {error}") from error
    return result.output.strip()[-1000:] or "It printed nothing."


@tool(effects=["write"])
def write_program(code: str) -> str:
    """Write the Python program"""
    Path(PROGRAM).write_text(code)
    return f"The program has {len(code.splitlines())} lines now."


@tool(effects=["exec"], repeats=True)
def evaluate(expression: str) -> str:
    """Evaluate an expression with the program's functions, such as double(4)"""
    return output_of(EVALUATE, expression)


@tool(effects=["exec"], repeats=True)
def trace(expression: str) -> str:
    """Show the variables after each line while the program evaluates an expression, such as double(4)"""
    return output_of(TRACE, expression)


@tool(effects=["read"])
def show_line(number: int) -> str:
    """Show one line of the program"""
    lines = Path(PROGRAM).read_text().splitlines() if Path(PROGRAM).exists() else []
    if not 1 <= number <= len(lines):
        raise ToolFailure(f"The program has {len(lines)} lines.")
    return lines[number - 1]


def code_was_written(calls) -> bool:
    return any(call.name == "write_program" and call.result and not call.error for call in calls)


DEBUG_TOOLS = (evaluate, trace, show_line)
GATED = [each.with_changes(hidden_until=code_was_written) for each in DEBUG_TOOLS]

always = Harness(
    tools=[write_program, *DEBUG_TOOLS],
    # what these tools run is in a sandbox: nothing can be sent away
    safety=SafetyPolicy(allow=[f"tool:{each.name}" for each in (write_program, *DEBUG_TOOLS)], private_data_out="allow"),
    max_tokens=512,
)
hidden = always.with_changes(tools=[write_program, *GATED])
refused = hidden.with_changes(gate=Gate(mode="refused"))
masked = hidden.with_changes(gate=Gate(mode="masked"))


def nothing_yet(workspace: Path) -> None:
    """An empty folder."""


def program(code: str):
    def write(workspace: Path) -> str:
        (workspace / PROGRAM).write_text(code)
        return "The program is written."

    return write


def results(trial, function: str, *cases: list) -> list | None:
    return results_of(files_of(trial.workspace).get(PROGRAM, ""), function, cases)


@goal(
    prompt="Write a Python program with a function middle(a, b, c) that returns the number that is neither the smallest nor "
    "the largest of the three.",
    setup=nothing_yet,
    known_pass=program("def middle(a, b, c):\n    return sorted([a, b, c])[1]\n"),
    known_fail=program("def middle(a, b, c):\n    return b\n"),
    min_turns=2,
)
def middle(trial) -> bool:
    """Written, and right for numbers that the prompt does not have."""
    return results(trial, "middle", [1, 2, 3], [9, 4, 6], [5, 7, 2], [-1, 0, -2]) == [2, 6, 5, -1]


@goal(
    prompt="Write a Python program with a function initials(name) that returns the first letter of each word of a name as "
    "capitals, so that initials('ada king lovelace') is 'AKL'.",
    setup=nothing_yet,
    known_pass=program("def initials(name):\n    return ''.join(word[0] for word in name.split()).upper()\n"),
    known_fail=program("def initials(name):\n    return 'AKL'\n"),
    min_turns=2,
    held_out=True,
)
def initials(trial) -> bool:
    """The same, of words."""
    return results(trial, "initials", ["ada king lovelace"], ["Grace hopper"], ["x"]) == ["AKL", "GH", "X"]
