"""The house stands: no import runs upwards, and the floor plan names every file.

The allowed arrows are read from the table in `docs/floor-plan.md`, so that the plan cannot tell another story than the test.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
SOURCE = REPO / "src" / "daneel"
PLAN = (REPO / "docs" / "floor-plan.md").read_text(encoding="utf-8")

# libraries that may be known in one place only
CONFINED = {
    "starlette": ("server/app.py",),
    "uvicorn": ("server/app.py", "server/serve.py"),
    "llama_cpp": ("server/engines/",),
    "jinja2": ("server/template_child.py",),
    "huggingface_hub": ("server/models/",),
    "httpx2": ("harness/", "server/models/"),
    "typer": ("cli/",),
}
GROUND = ("wire", "formats")
PURE_FLOORS_REFUSE = ("socket", "subprocess", "asyncio", "sqlite3", "httpx2", "requests", "urllib", "http")


def allowed_arrows() -> dict[str, set[str]]:
    """Rows `| floor | may import |` of the plan."""
    rows = re.findall(r"^\| `(\w+)/` \| (.+?) \|", PLAN, re.MULTILINE)
    return {floor: set(re.findall(r"`(\w+)/`", cell)) for floor, cell in rows}


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def imported_modules(path: Path) -> set[str]:
    """Every absolute module name imported anywhere in the file: inside functions and for type checking included."""
    package = ("daneel", *path.relative_to(SOURCE).parent.parts)
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            found.add(module)
            found.update(f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            found.update(a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
    return found


def floor_of(module: str) -> str | None:
    """The floor a module name lies on; `None` outside the house and for `daneel.errors`, which all may use."""
    parts = module.split(".")
    return parts[1] if parts[0] == "daneel" and len(parts) > 1 and (SOURCE / parts[1]).is_dir() else None


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_import_runs_upwards(path: Path) -> None:
    relative = path.relative_to(SOURCE)
    if len(relative.parts) == 1:  # __init__, __main__, errors: the doors of the house
        return
    floor = relative.parts[0]
    allowed = allowed_arrows()[floor] | {floor}
    reached = {floor_of(module) for module in imported_modules(path)} - {None}
    assert reached <= allowed, f"{relative} imports {sorted(reached - allowed)}; {floor}/ may import {sorted(allowed)}"


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_libraries_stay_where_they_belong(path: Path) -> None:
    relative = path.relative_to(SOURCE).as_posix()
    roots = {module.split(".")[0] for module in imported_modules(path)}
    for library, homes in CONFINED.items():
        assert library not in roots or relative.startswith(homes), f"{relative} imports {library}, whose place is {homes}"
    if relative.startswith(tuple(f"{floor}/" for floor in GROUND)):
        assert not roots & set(PURE_FLOORS_REFUSE), f"{relative} does I/O on the ground floor"


def test_the_plan_names_every_file() -> None:
    named = set(re.findall(r"^- `([\w/]+\.\w+)`", PLAN, re.MULTILINE))
    there = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix in (".py", ".toml", ".html") and path.name != "__init__.py"
    }
    assert named == there, f"not in the plan: {sorted(there - named)}; in the plan only: {sorted(named - there)}"


def test_the_rule_sees_hidden_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Imports inside functions, for type checking, relative and by string are arrows like all others."""
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    for floor in ("wire", "server", "bench", "harness"):
        (tmp_path / floor).mkdir()
    probe = tmp_path / "wire" / "probe.py"
    probe.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from daneel.server.chat import x\n"
        "def f():\n    from ..harness import loop\n    import importlib\n    importlib.import_module('daneel.bench.trial')\n"
    )
    assert {floor_of(module) for module in imported_modules(probe)} - {None} == {"server", "harness", "bench"}
