"""How the smallest models are told of tools: a short prompt, and one exchange that shows them how it is done."""

from __future__ import annotations

from daneel.formats.syntax import WorkedExample

SHORT_TOOL_PROMPT = """You can call these tools:
{tools}

To call tools, reply only with a JSON array:
[{{"name": "<tool name>", "arguments": {{}}}}]"""
EXAMPLE = WorkedExample(
    "How is the weather and how many people live here?",
    (("get_weather", "Get the weather", "sunny, 21 C"), ("get_population", "Get the population", "709037")),
    "The weather is sunny, 21 C, and 709037 people live here.",
)

OVERCALLS = "behind its worked example it calls every tool that it is shown, whatever is asked"
