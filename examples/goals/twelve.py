"""All twelve goals, and one harness with the tools of all: what an agent for everything has to choose among.

daneel measure examples/goals/twelve.py --serve qwen2.5-coder-1.5b --trials 5
"""

from dates import add_days, add_event, dentist, in_45_days, today
from files import add_eggs, copy_note
from fix import fix_largest, fix_total, run_test
from search import delete_file, delete_lighthouse, phone
from shop import oslo, run_sql, tea_price
from sums import add, boxes, hall_floor, multiply

from daneel import Harness, SafetyPolicy
from daneel.tools import list_files, read_file, search_text, write_file

__all__ = [
    "add_eggs",
    "boxes",
    "copy_note",
    "delete_lighthouse",
    "dentist",
    "fix_largest",
    "fix_total",
    "hall_floor",
    "in_45_days",
    "oslo",
    "phone",
    "tea_price",
]

harness = Harness(
    name="twelve",
    tools=[
        *(list_files("."), read_file("."), write_file("."), search_text("."), delete_file),
        *(multiply, add, today, add_days, add_event, run_sql, run_test),
    ],
    safety=SafetyPolicy(
        allow=["write", *(f"tool:{tool.name}" for tool in (multiply, add, today, add_event, run_sql, run_test))]
    ),
    max_tokens=512,
)
