"""A scripted model for `examples/clock.py`: what each harness gets from it is known, so that their E is.

It calls both tools at once, reads the results in the request and states them. Only a tool that is called `my_date` *and*
described "TODO" (H2) it does not trust at first: it asks for the time alone, then for the date. That is one turn more.
"""

from __future__ import annotations

from datetime import date, time
from typing import Any

from tests.support.scripted_server import Reply, calls, text

EXPECTED_EFFECTIVENESS = {"H1": 1.0, "H2": 0.5, "H3": 1.0, "H4": 1.0}


def clock_model(request: dict[str, Any]) -> Reply:
    """The next reply, from the tools and the tool messages of the request."""
    offered = {tool["function"]["name"]: tool["function"]["description"] for tool in request["tools"]}
    results = results_in(request)
    missing = [name for name in offered if name not in results]
    if not results and offered.get("my_date") == "TODO":
        missing.remove("my_date")
    if missing:
        return calls(*((name, {}) for name in missing))
    return text(answer_from(results))


def results_in(request: dict[str, Any]) -> dict[str, str]:
    """The latest result of each tool in a request's history, by the tool's name."""
    names = {
        call["id"]: call["function"]["name"] for message in request["messages"] for call in message.get("tool_calls") or []
    }
    return {names[message["tool_call_id"]]: message["content"] for message in request["messages"] if message["role"] == "tool"}


def answer_from(results: dict[str, str]) -> str:
    """A sentence that states what the tools returned, in another notation than theirs."""
    now = time.fromisoformat(results["cur_time"])
    today = date.fromisoformat(next(result for name, result in results.items() if name != "cur_time"))
    return f"It is {now:%I:%M %p} on {today:%A}, {today:%B} {today.day}, {today.year}."
