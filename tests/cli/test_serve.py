"""`daneel serve` as a person starts and stops it: bad input, the ready line, signals, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from daneel.cli.local_server import READY_LINE, LocalServer
from daneel.errors import UserError

HI: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
SERVE = [sys.executable, "-m", "daneel", "serve"]


def refused(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """The one sentence `daneel serve` ends with, exit code 2 and no traceback."""
    env = {**os.environ, **(environment or {})}
    done = subprocess.run([*SERVE, *arguments], capture_output=True, text=True, timeout=60, env=env, stdin=subprocess.DEVNULL)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0].removeprefix("daneel: ")


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server started as in a terminal, and its URL."""
    process = subprocess.Popen(
        [*SERVE, "--port", "0", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        match = READY_LINE.match(process.stdout.readline().rstrip())
        assert match, process.stderr.read()
        yield process, match[1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def descendants(pid: int) -> list[psutil.Process]:
    found = psutil.Process(pid).children(recursive=True)
    return [child for child in found if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def write_script(folder: Path, *entries: object) -> str:
    path = folder / "script.jsonl"
    path.write_text("\n".join(map(json.dumps, entries)), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["which MODEL"]),
        (["/no/such/model.gguf"], ["no such file", "/no/such/model.gguf"]),
        (["no-such-model"], ["no-such-model"]),
        (["x", "--engine", "vllm"], ["--engine", "'vllm'", "llama.cpp", "scripted"]),
        (["x", "--engine", "mlx"], ["mlx", "not in this version"]),
        (["x", "--gpu-layers", "some"], ["--gpu-layers", "'some'"]),
        (["--engine", "scripted", "/no/such/script.jsonl"], ["no such script file", "/no/such/script.jsonl"]),
        (["--engine", "scripted", "a", "--script", "b"], ["script once"]),
        (["x", "--script", "b"], ["--engine scripted"]),
        (["--engine", "scripted", "--host", "0.0.0.0"], ["0.0.0.0", "--api-key"]),
        (["--engine", "scripted", "--host", "::"], ["--api-key"]),
        (["--engine", "scripted", "--host", "no.such.host.invalid", "--api-key", "k"], ["no.such.host.invalid"]),
        (["--engine", "scripted", "--api-key", ""], ["key is empty"]),
        (["--engine", "scripted", "--api-key", "k\n"], ["visible ASCII"]),
        (["--engine", "scripted", "--api-key", "ключ"], ["visible ASCII"]),
        (["--engine", "scripted", "--key-file", "/no/such.keys"], ["--key-file", "/no/such.keys", "No such file"]),
        (["--engine", "scripted", "--key-file", "/dev/null"], ["--key-file", "/dev/null holds no key"]),
        (["--engine", "scripted", "--admin-key-file", "/no/such.keys"], ["--admin-key-file", "/no/such.keys"]),
        (["--engine", "scripted", "--chat-template", "/no/such.jinja"], ["--chat-template", "/no/such.jinja"]),
        (["--engine", "scripted", "--chat-template-args", "{"], ["--chat-template-args", "JSON"]),
        (["--engine", "scripted", "--chat-template-args", "[]"], ["--chat-template-args", "object"]),
        (["--engine", "scripted", "--chat-template-args", '{"tools": []}'], ["'tools'"]),
        (
            ["--engine", "scripted", "--chat-template-args", '{"add_generation_prompt": 1}'],
            ["add_generation_prompt", "true or false"],
        ),
        (["--engine", "scripted", "--reasoning-field", "thoughts"], ["--reasoning-field", "'thoughts'", "reasoning_content"]),
        (["--engine", "scripted", "--format", "telepathy"], ["telepathy", "hermes", "gemma4"]),
    ],
)
def test_bad_input_is_one_clear_sentence(arguments: list[str], words: list[str]) -> None:
    sentence = refused("--port", "0", *arguments)
    for word in words:
        assert word in sentence


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    for name, data in [
        ("text.gguf", b"just text, and enough of it"),
        ("empty.gguf", b""),
        ("cut.gguf", b"GGUF\x03\x00\x00\x00"),
    ]:
        path = tmp_path / name
        path.write_bytes(data)
        assert str(path) in refused("--port", "0", str(path))


def test_broken_scripts_and_templates(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('"fine"\n{"txt": "x"}\n', encoding="utf-8")
    sentence = refused("--port", "0", "--engine", "scripted", str(script))
    assert "line 2" in sentence
    template = tmp_path / "template.jinja"
    template.write_text("{% for %}", encoding="utf-8")
    assert "line 1" in refused("--port", "0", "--engine", "scripted", "--chat-template", str(template))
    template.write_bytes(b"\xff")
    assert "UTF-8" in refused("--port", "0", "--engine", "scripted", "--chat-template", str(template))


def test_a_port_in_use_is_said_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        sentence = refused("--port", port, "/no/such/model.gguf")
    assert f"port {port} on 127.0.0.1 is in use" in sentence


def test_the_ready_lines_and_the_curl_line_work() -> None:
    with serving("--engine", "scripted", "--served-model-name", "mine") as (process, url):
        assert process.stdout is not None
        curl = process.stdout.readline().rstrip()
        assert curl.startswith(f"Try: curl {url}/chat/completions ")
        command = curl.removeprefix("Try: ").replace('"messages"', '"script": "Hello!", "messages"')
        said = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
        assert json.loads(said.stdout)["choices"][0]["message"]["content"] == "Hello!"
        models = httpx2.get(f"{url}/models").json()["data"]
        assert [model["id"] for model in models] == ["mine"]
        for name in ("mine", "scripted"):
            assert httpx2.post(f"{url}/chat/completions", json={**HI, "model": name, "script": "x"}).status_code == 200


def test_the_key_comes_by_flag_or_environment_and_is_no_childs_business(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANEEL_API_KEY", "sesame")
    with serving("--engine", "scripted") as (process, url):
        assert httpx2.get(f"{url}/models").status_code == 401
        assert httpx2.get(f"{url}/models", headers={"authorization": "Bearer sesame"}).status_code == 200
        assert all("DANEEL_API_KEY" not in child.environ() for child in descendants(process.pid))
    monkeypatch.delenv("DANEEL_API_KEY")
    with serving("--engine", "scripted", "--host", "0.0.0.0", "--api-key", "open") as (_, url):
        assert url.startswith("http://127.0.0.1:")
        assert httpx2.get(f"{url}/models", headers={"authorization": "Bearer open"}).status_code == 200


def test_template_format_and_defaults_are_the_persons_to_choose(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text(
        "{{ greeting }} {{ messages[0].content }}{% if add_generation_prompt %} ->{% endif %}", encoding="utf-8"
    )
    options = ["--chat-template", str(template), "--chat-template-args", '{"greeting": "Hello"}', "--format", "gemma4"]
    with serving("--engine", "scripted", *options, "--reasoning-field", "reasoning_content") as (_, url):

        def ask(**fields: Any) -> dict[str, Any]:
            script = "<|channel>thought\nhm<channel|>x<|tool_call>call:f{}<tool_call|>"
            body = {**HI, "script": script, "include": ["prompt_text"], **fields}
            return dict(httpx2.post(f"{url}/chat/completions", json=body).json())

        reply = ask()
        assert reply["daneel"]["prompt_text"] == "Hello Hi ->"
        message = reply["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("hm", "x")
        assert message["tool_calls"][0]["function"]["name"] == "f"
        assert ask(chat_template_kwargs={"greeting": "Bye"})["daneel"]["prompt_text"] == "Bye Hi ->"
        assert ask(add_generation_prompt=False)["daneel"]["prompt_text"] == "Hello Hi"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_zero_and_leaves_no_process_and_no_port(number: signal.Signals) -> None:
    with serving("--engine", "scripted") as (process, url):
        children = descendants(process.pid)
        assert len(children) >= 2
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
        _, alive = psutil.wait_procs(children, timeout=10)
        assert alive == []
        with socket.create_server(("127.0.0.1", httpx2.URL(url).port or 0)):
            pass
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_stream_under_way_ends_with_an_error_event_when_the_server_stops(tmp_path: Path) -> None:
    script = write_script(tmp_path, {"text": "x" * 10_000, "delay_ms": 20})
    with (
        serving("--engine", "scripted", script) as (process, url),
        httpx2.stream("POST", f"{url}/chat/completions", json={**HI, "stream": True}, timeout=60) as response,
    ):
        text = ""
        for part in response.iter_text():
            if not text:
                process.terminate()
            text += part
        assert text.endswith("data: [DONE]\n\n")
        assert "shutting down" in text.split("\n\n")[-3]
        assert process.wait(timeout=30) == 0


def test_a_reply_that_is_nearly_done_may_end(tmp_path: Path) -> None:
    script = write_script(tmp_path, {"text": "x" * 20, "delay_ms": 20})
    with (
        serving("--engine", "scripted", script) as (process, url),
        httpx2.stream("POST", f"{url}/chat/completions", json={**HI, "stream": True}, timeout=60) as response,
    ):
        text = ""
        for part in response.iter_text():
            if not text:
                process.terminate()
            text += part
        assert '"finish_reason":"stop"' in text
        assert process.wait(timeout=30) == 0


def test_the_engine_dies_and_comes_back_and_http_stays_up(tmp_path: Path) -> None:
    script = write_script(tmp_path, {"text": "abc", "crash": True, "match": "crash"})
    with serving("--engine", "scripted", script) as (_, url):
        crash = {"messages": [{"role": "user", "content": "crash"}]}
        assert "[DONE]" in httpx2.post(f"{url}/chat/completions", json={**crash, "stream": True}, timeout=60).text
        health = url.removesuffix("/v1") + "/health"
        while httpx2.get(health).json()["engine"] != "ready":
            time.sleep(0.05)
        response = httpx2.post(f"{url}/chat/completions", json=crash, timeout=60)
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        while (reply := httpx2.post(f"{url}/chat/completions", json={**HI, "script": "back"}, timeout=60)).status_code == 503:
            time.sleep(0.05)
        assert reply.json()["choices"][0]["message"]["content"] == "back"


def test_a_client_that_leaves_frees_the_engine_whole_or_streamed(tmp_path: Path) -> None:
    script = write_script(tmp_path, {"text": "x" * 100_000, "delay_ms": 50, "repeat": True, "match": "slow"})
    slow = {"messages": [{"role": "user", "content": "slow"}]}
    with serving("--engine", "scripted", script) as (_, url):
        for _ in range(4):  # twice four are as many as the engine takes at a time
            with pytest.raises(httpx2.TimeoutException):
                httpx2.post(f"{url}/chat/completions", json=slow, timeout=0.3)
            with httpx2.stream("POST", f"{url}/chat/completions", json={**slow, "stream": True}) as response:
                next(response.iter_bytes())
        reply = httpx2.post(f"{url}/chat/completions", json={**HI, "script": "free"}, timeout=30).json()
        assert reply["choices"][0]["message"]["content"] == "free"


def test_local_server_gives_the_url_and_leaves_nothing() -> None:
    said: list[str] = []
    with LocalServer(None, engine="scripted", extra_args=["--context", "512"], on_progress=said.append) as url:
        [model] = httpx2.get(f"{url}/models").json()["data"]
        assert model["context_length"] == 512
        [server] = [child for child in descendants(os.getpid()) if "serve" in child.cmdline()]
        children = [server, *server.children(recursive=True)]
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def test_local_server_says_why_it_could_not_start() -> None:
    with pytest.raises(UserError, match=r"the server could not start: .*no such file: /no/such/model\.gguf"):
        LocalServer("/no/such/model.gguf").__enter__()
    with pytest.raises(UserError, match="was not ready within 0 s"):
        LocalServer(None, engine="scripted", ready_timeout_s=0.0).__enter__()


def test_a_server_ends_with_whoever_started_it() -> None:
    code = (
        "import time; from daneel.cli.local_server import LocalServer\n"
        "with LocalServer(None, engine='scripted') as url:\n    print(url, flush=True)\n    time.sleep(600)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    try:
        assert starter.stdout.readline().startswith("http://127.0.0.1:")
        children = descendants(starter.pid)
        assert len(children) >= 3
    finally:
        starter.kill()
        starter.wait()
        starter.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []


def test_ctrl_c_while_loading_ends_it_too() -> None:
    process = subprocess.Popen(
        [*SERVE, "--engine", "scripted", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    timer = threading.Timer(0.5, process.send_signal, [signal.SIGINT])
    timer.start()
    _, said = process.communicate(timeout=30)
    timer.join()
    # wherever it was: importing (the interpreter's own way out), loading or serving
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert "Exception ignored" not in said
