"""Thirty tools for looking at a Python project, as they accumulate: some do the same, some only work after another one, and
most are for questions that nobody asks. They read the Python files of the current folder, which are the harness's own data: so
they declare no effects, and their results are told without the fence that other people's words get.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from daneel import ToolFailure, tool
from daneel.harness.safety.paths import parts_of


def sources() -> dict[str, str]:
    """The project's files by name."""
    return {path.name: path.read_text(errors="replace") for path in sorted(Path().glob("*.py"))}


def source_of_file(path: str) -> str:
    found = sources().get("/".join(parts_of(path)))
    if found is None:
        raise ToolFailure(f"There is no file {path}.")
    return found


def lines_with(text: str) -> str:
    if not text.strip():
        raise ToolFailure("The text to look for is empty.")
    found = [
        f"{path}:{number}: {line.strip()}"
        for path, source in sources().items()
        for number, line in enumerate(source.splitlines(), 1)
        if text.strip() in line
    ]
    return "\n".join(found[:20]) or "No lines."


Definition = ast.FunctionDef | ast.ClassDef


def definitions(name: str | None = None) -> Iterator[tuple[str, Definition]]:
    for path, source in sources().items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and name in (None, node.name):
                yield path, node


def one_definition(name: str) -> tuple[str, Definition]:
    found = next(definitions(name.strip().removesuffix("()")), None)
    if found is None:
        raise ToolFailure(f"Nothing called {name} is defined here.")
    return found


def segment(path: str, node: Definition) -> str:
    return ast.get_source_segment(sources()[path], node) or ""


def calls_in(node: ast.AST) -> list[str]:
    return [each.func.id for each in ast.walk(node) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)]


# --- two that find lines, two that show a file, two that list files: each pair does the same ---------------------------------


@tool
def find_text(text: str) -> str:
    """Find lines that hold a text"""
    return lines_with(text)


@tool
def grep_code(query: str) -> str:
    """Search the code for a string"""
    return lines_with(query)


@tool
def show_file(path: str) -> str:
    """Show a file"""
    return source_of_file(path)


@tool
def print_source(path: str) -> str:
    """Print the source of a file"""
    return source_of_file(path)


@tool
def list_modules() -> str:
    """List the modules"""
    return ", ".join(sources())


@tool
def project_tree() -> str:
    """Show the project's files as a tree"""
    return "\n".join(["project", *(f"  {path}" for path in sources())])


# --- the second of each needs what the first one returns ---------------------------------------------------------------------


@tool
def locate_definition(name: str) -> str:
    """Find where a function or class is defined"""
    path, node = one_definition(name)
    return f"{path}:{node.lineno}"


@tool
def code_at(location: str) -> str:
    """Show the function or class at a location that locate_definition gave"""
    for path, node in definitions():
        if location.strip() == f"{path}:{node.lineno}":
            return segment(path, node)
    raise ToolFailure("No function or class begins there. Call locate_definition for the location.")


@tool
def list_tests() -> str:
    """List the tests"""
    return "\n".join(node.name for _, node in definitions() if node.name.startswith("test_"))


@tool
def show_test(name: str) -> str:
    """Show a test"""
    return segment(*one_definition(name))


# --- one that often finds nothing, and one that finds it then ----------------------------------------------------------------


@tool
def find_constant_file(name: str) -> str:
    """Find the file that is named like a constant"""
    found = [path for path in sources() if path.removesuffix(".py") == name.lower()]
    return ", ".join(found) or "No file."


@tool
def constant_value(name: str) -> str:
    """Get the value of a constant"""
    found = re.search(rf"^{re.escape(name.strip())} = .*$", "\n".join(sources().values()), re.MULTILINE)
    if found is None:
        raise ToolFailure(f"There is no constant {name}.")
    return found.group()


@tool
def who_calls(name: str) -> str:
    """Find the functions that call a function"""
    return (
        "\n".join(node.name for _, node in definitions() if name.strip().removesuffix("()") in calls_in(node)) or "No function."
    )


# --- for questions that nobody asks ------------------------------------------------------------------------------------------


@tool
def count_blank_lines(path: str) -> int:
    """Count the blank lines of a file"""
    return sum(not line.strip() for line in source_of_file(path).splitlines())


@tool
def longest_line(path: str) -> str:
    """Get the longest line of a file"""
    return max(source_of_file(path).splitlines(), key=len, default="")


@tool
def file_size(path: str) -> str:
    """Get the size of a file"""
    return f"{len(source_of_file(path).encode())} bytes"


@tool
def count_characters(path: str) -> int:
    """Count the characters of a file"""
    return len(source_of_file(path))


@tool
def module_docstring(path: str) -> str:
    """Get the docstring of a module"""
    return ast.get_docstring(ast.parse(source_of_file(path))) or "None."


@tool
def imports_of(path: str) -> str:
    """List the imports of a file"""
    return "\n".join(line for line in source_of_file(path).splitlines() if re.match(r"(from|import) ", line)) or "None."


@tool
def importers_of(module: str) -> str:
    """List the files that import a module"""
    wanted = re.compile(rf"^(from|import) {re.escape(module)}\b", re.MULTILINE)
    return ", ".join(path for path, source in sources().items() if wanted.search(source)) or "None."


@tool
def count_functions(path: str) -> int:
    """Count the functions of a file"""
    return sum(isinstance(node, ast.FunctionDef) for node in ast.walk(ast.parse(source_of_file(path))))


@tool
def list_classes() -> str:
    """List the classes"""
    return ", ".join(node.name for _, node in definitions() if isinstance(node, ast.ClassDef))


@tool
def todo_comments() -> str:
    """List the TODO comments"""
    return lines_with("# TODO")


@tool
def trailing_spaces(path: str) -> int:
    """Count the lines that end in spaces"""
    return sum(line != line.rstrip() for line in source_of_file(path).splitlines())


@tool
def line_endings(path: str) -> str:
    """Get the line endings of a file"""
    return "CRLF" if "\r\n" in source_of_file(path) else "LF"


@tool
def nesting_depth(path: str) -> int:
    """Get the deepest indentation of a file"""
    return max((len(line) - len(line.lstrip()) for line in source_of_file(path).splitlines()), default=0) // 4


@tool
def string_literals(path: str) -> str:
    """List the strings of a file"""
    nodes = ast.walk(ast.parse(source_of_file(path)))
    return "\n".join(repr(node.value) for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@tool
def numbers_in(path: str) -> str:
    """List the numbers of a file"""
    nodes = ast.walk(ast.parse(source_of_file(path)))
    return ", ".join(str(node.value) for node in nodes if isinstance(node, ast.Constant) and type(node.value) is int) or "None."


@tool
def first_line(path: str) -> str:
    """Get the first line of a file"""
    return next(iter(source_of_file(path).splitlines()), "")


@tool
def decorators_of(name: str) -> str:
    """List the decorators of a function or class"""
    return ", ".join(ast.unparse(each) for each in one_definition(name)[1].decorator_list) or "None."


LINES = (find_text, grep_code)
FILES = (show_file, print_source)
LISTS = (list_modules, project_tree)
DEFINITIONS = (locate_definition, code_at)
TESTS = (list_tests, show_test)
OTHERS = (find_constant_file, constant_value, who_calls)
NEVER_NEEDED = (
    *(count_blank_lines, longest_line, file_size, count_characters, module_docstring, imports_of, importers_of),
    *(count_functions, list_classes, todo_comments, trailing_spaces, line_endings, nesting_depth, string_literals),
    *(numbers_in, first_line, decorators_of),
)
ALL = (*LINES, *FILES, *LISTS, *DEFINITIONS, *TESTS, *OTHERS, *NEVER_NEEDED)
