"""Approvals at the terminal: what a person sees, what counts as yes, and what a hostile text cannot do to them."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.scripted_server import ScriptedServer, calls, text
from tests.support.terminal import Terminal
from typer.testing import CliRunner

from daneel import Harness
from daneel.cli.approve import TerminalApprover, terminal_approver, warn_without_sandbox
from daneel.cli.main import app
from daneel.cli.typed import Typed
from daneel.harness.safety.approvals import ApprovalRequest, diff_of
from daneel.harness.safety.confinement import NoSandbox
from daneel.harness.tools.builtin.command import run_command, without_sandbox


def request(**changes: Any) -> ApprovalRequest:
    fields: dict[str, Any] = {"tool": "run_command", "arguments": '{"command": "ls"}', "reason": "it runs a command"}
    return ApprovalRequest(**{**fields, **changes})


def asked(request: ApprovalRequest, *answers: str, times: int = 1) -> tuple[list[bool], str]:
    """The verdicts, and what was shown."""
    shown = io.StringIO()
    given = iter(answers)

    def read() -> str:
        try:
            return next(given)
        except StopIteration:
            raise EOFError from None

    approver = TerminalApprover(Console(file=shown, width=200), read)
    return [approver.ask(request) for _ in range(times)], shown.getvalue()


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        (["y"], True),
        (["YES "], True),
        (["n"], False),
        (["no"], False),
        ([], False),
        (["", "y"], True),
        (["sure", "ok", "n"], False),
        (["yy", "n"], False),
    ],
)
def test_only_a_clear_yes_is_yes(answers: list[str], verdict: bool) -> None:
    assert asked(request(), *answers)[0] == [verdict]


def test_always_is_for_this_tool_only_and_never_for_what_may_not_be_repeated() -> None:
    assert asked(request(), "a", times=3)[0] == [True, True, True]
    verdicts, shown = asked(request(can_repeat=False), "a", "y", "a", "n", times=2)
    assert verdicts == [True, False]
    assert "a for all" not in shown
    shown_to = io.StringIO()
    answers = iter(["a", "n"])
    approver = TerminalApprover(Console(file=shown_to), lambda: next(answers))
    assert approver.ask(request())
    assert not approver.ask(request(tool="write_file"))
    with pytest.raises(StopIteration):
        approver.ask(request(can_repeat=False))  # asked anew, though all calls of this tool were allowed


def test_what_is_asked_for_is_shown() -> None:
    _, shown = asked(request(effects=("exec",), arguments=json.dumps({"command": "make\nmake test", "n": 3})), "n")
    assert "run_command needs your approval: it runs a command" in shown
    assert "command: make\n    make test" in shown
    assert "n: 3" in shown


def test_an_edit_is_shown_as_a_diff() -> None:
    _, shown = asked(request(tool="edit_file", diff=diff_of("a.txt", "one\ntwo\n", "one\n2\n")), "n")
    assert "-two" in shown
    assert "+2" in shown


@pytest.mark.parametrize("hidden", ["\x1b[2J\x1b[H", "\x1b]0;title\x07", "\r", "\u202e", "\x08" * 20, "\u200b"])
def test_a_text_cannot_paint_over_the_question(hidden: str) -> None:
    hostile = request(
        tool=f"a{hidden}b",
        reason=f"a{hidden}b",
        effects=(f"a{hidden}b",),
        arguments=json.dumps({f"a{hidden}b": f"a{hidden}b"}, ensure_ascii=False),
    )
    for shown in (asked(hostile, "n")[1], asked(request(diff=f"+a{hidden}b"), "n")[1]):
        assert not set(hidden) & set(shown) - {"[", "]", "2", "J", "H", "0", ";", *"title"}


def test_nothing_is_pushed_out_of_sight() -> None:
    _, shown = asked(request(arguments=json.dumps({"command": "ls" + " " * 5000 + "; rm x" + "\n" * 300 + "rm y"})), "n")
    assert "[5000 spaces]" in shown
    assert "line ends]" in shown
    assert "rm y" in shown
    assert len(shown.splitlines()) < 20
    _, shown = asked(request(arguments=json.dumps({"command": "x" * 30_000})), "n")
    assert "more characters]" in shown


def test_markup_is_text() -> None:
    assert "[red]a[/red]" in asked(request(arguments='{"command": "[red]a[/red]"}'), "n")[1]


def test_nobody_is_asked_where_nobody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert terminal_approver(Console(file=io.StringIO(), force_terminal=True)) is None
    monkeypatch.setattr("sys.stdin", type("Tty", (io.StringIO,), {"isatty": lambda self: True})())
    assert terminal_approver(Console(file=io.StringIO(), force_terminal=False)) is None
    assert terminal_approver(Console(file=io.StringIO(), force_terminal=True)) is not None


class AnsweredLate:
    """Messages, to which `late` is added once somebody waits for one."""

    def __init__(self, messages: Any, late: str) -> None:
        self._messages = messages
        self._late: str | None = late

    def get(self, timeout: float | None = None) -> Any:
        if self._messages.empty() and self._late is not None:
            self._messages.put(self._late)
            self._late = None
        return self._messages.get(timeout=timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._messages, name)


class TestInChat:
    """Where another thread reads what is typed."""

    def typed(self, messages: Iterable[str | None]) -> Typed:
        typed = Typed(0, voice=None)  # type: ignore[arg-type]  # it says nothing here
        for message in messages:
            typed._messages.put(message)
        return typed

    def test_what_was_typed_before_the_question_answers_nothing(self) -> None:
        typed = self.typed(["y"])
        typed._messages = (answers := AnsweredLate(typed._messages, "n"))  # type: ignore[assignment]
        assert typed.answer() == "n"
        assert answers.get() == "y", "it is heard later"

    @pytest.mark.parametrize("messages", [[None], ["hello", None]])
    def test_the_end_of_the_input_is_no(self, messages: list[str | None]) -> None:
        typed = self.typed(messages)
        with pytest.raises(EOFError):
            typed.answer()
        assert [typed._messages.get() for _ in messages] == messages


HARNESS = """
from daneel import Harness
from daneel.tools import file_tools, run_command

harness = Harness(tools=[*file_tools("."), run_command(".")])
"""


def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: list[Any], *options: str) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DANEEL_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "agent.py").write_text(HARNESS)
    with ScriptedServer(script) as server:
        result = CliRunner().invoke(app, ["run", "agent.py", "Do it", "--server", server.url, "--json", *options])
    return json.loads(result.stdout)


def test_unattended_a_write_is_denied_and_the_model_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ran(tmp_path, monkeypatch, [calls(("write_file", {"path": "x.txt", "content": "x"})), text("I could not.")])
    assert run["answer"] == "I could not."
    assert "nobody is there to ask" in run["messages"][-2]["content"]
    assert not (tmp_path / "x.txt").exists()


def test_no_sandbox_does_not_approve_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ran(tmp_path, monkeypatch, [calls(("run_command", {"command": "touch x"})), text("I could not.")], "--no-sandbox")
    assert run["calls"][0]["error"].startswith("run_command was not allowed")
    assert not (tmp_path / "x").exists()


class TestAtTheTerminal:
    """With a person there."""

    def opened(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Terminal:
        monkeypatch.setenv("DANEEL_DATA_DIR", str(folder / "data"))
        (folder / "agent.py").write_text(HARNESS)
        return Terminal(folder, *arguments)

    @pytest.mark.parametrize(("answer", "is_written"), [("y", True), ("n", False), ("\x03", False)])
    def test_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, is_written: bool) -> None:
        script = [calls(("write_file", {"path": "x.txt", "content": "hello"})), text("That is all.")]
        with ScriptedServer(script) as server:
            terminal = self.opened(tmp_path, monkeypatch, "run", "agent.py", "Do it", "--server", server.url)
            shown = terminal.until("Allow it? y for yes, n for no, a for all calls of this tool in this run: ")
            assert "write_file needs your approval: it writes: x.txt" in shown
            assert "+hello" in shown
            terminal.type(answer if answer == "\x03" else f"{answer}\n")
            code = terminal.ended()
            terminal.close()
        assert code == (130 if answer == "\x03" else 0)
        assert (tmp_path / "x.txt").exists() == is_written

    def test_chat(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script = [calls(("write_file", {"path": "x.txt", "content": "hello"})), text("Written."), text("Bye.")]
        with ScriptedServer(script) as server:
            terminal = self.opened(tmp_path, monkeypatch, "chat", "agent.py", "--server", server.url)
            terminal.until("> ")
            terminal.type("Write it\n")
            terminal.until("Allow it? ")
            terminal.type("y\n")
            terminal.until("Written.")
            terminal.until("> ")
            terminal.type("/quit\n")
            assert terminal.ended() == 0
            terminal.close()
        assert (tmp_path / "x.txt").read_text() == "hello"


def test_a_person_is_told_at_the_start_that_commands_will_be_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nowhere() -> Any:
        raise NoSandbox("bubblewrap is not installed")

    monkeypatch.setattr("daneel.cli.approve.find_sandbox", nowhere)
    harness = Harness(tools=[run_command(tmp_path)])
    warn_without_sandbox(harness)
    assert "run_command will refuse: bubblewrap is not installed; --no-sandbox runs" in capsys.readouterr().err
    for quiet in (without_sandbox(harness), Harness()):
        warn_without_sandbox(quiet)
        assert capsys.readouterr().err == ""


@pytest.fixture
def lost_interrupt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Makes a Ctrl-C that no blocking call of the main thread notices, as one that comes right before such a call."""
    master, slave = pty.openpty()
    release = threading.Event()
    elsewhere = threading.Thread(target=release.wait)  # takes the signal, as the main thread blocks it
    elsewhere.start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    with os.fdopen(slave) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield timer.start
        timer.cancel()
        release.set()
        elsewhere.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(master)


@pytest.mark.timeout(20)
def test_ctrl_c_on_the_way_into_the_wait_for_an_answer_ends_it(lost_interrupt: Callable[[], None]) -> None:
    lost_interrupt()
    with pytest.raises(KeyboardInterrupt):
        TerminalApprover(Console(file=io.StringIO())).ask(request())


@pytest.mark.timeout(20)
def test_ctrl_c_on_the_way_into_the_wait_for_a_message_ends_it(lost_interrupt: Callable[[], None]) -> None:
    typed = Typed(0, voice=None)  # type: ignore[arg-type]  # it says nothing here
    lost_interrupt()
    with pytest.raises(KeyboardInterrupt):
        typed.answer()
