"""All twelve goals, and one harness with the eleven tools of all: what an agent for everything has to choose among.

daneel measure examples/goals/twelve.py --serve qwen2.5-coder-1.5b --trials 5
"""

from dates import date_in, days_to_go, days_until, in_45_days
from files import add_eggs, copy_note
from fix import fix_largest, fix_total, run_test
from plain_files import add_line, copy_file, find_lines, read_file, write_file
from search import lighthouse, phone
from shop import oslo, run_sql, tea_price
from sums import add, boxes, hall_floor, multiply

from daneel import Harness, SafetyPolicy

__all__ = [
    "add_eggs",
    "boxes",
    "copy_note",
    "days_to_go",
    "fix_largest",
    "fix_total",
    "hall_floor",
    "in_45_days",
    "lighthouse",
    "oslo",
    "phone",
    "tea_price",
]

harness = Harness(
    name="twelve",
    tools=[
        *(read_file, write_file, copy_file, add_line, find_lines),
        *(multiply, add, date_in, days_until, run_sql, run_test),
    ],
    # what run_test runs is in a sandbox
    safety=SafetyPolicy(allow=["write", *(f"tool:{each.name}" for each in (run_sql, run_test))], private_data_out="allow"),
    max_tokens=512,
)
