"""One harness, four ways to keep a tool for later: a price may be changed only after the same item was looked up.

daneel check examples/gated.py                       # the tools' own examples, no model needed
daneel run examples/gated.py --harness refused --goal cheaper_tea
daneel measure examples/gated.py --goal cheaper_tea  # which way is best for your model?
"""

from daneel import Example, Gate, Harness, ToolFailure, goal, only_after, tool

PRICES = {"tea": 5, "coffee": 7}


@tool(
    examples=[Example({"item": "tea"}, 5, rendered="tea costs 5.")],
    render="{item} costs {result}.",
)
def look_up(item: str) -> int:
    """Look up the price of an item"""
    if item not in PRICES:
        raise ToolFailure(f"There is no item {item}. The items are: {', '.join(PRICES)}.")
    return PRICES[item]


def set_price(item: str, price: int) -> str:
    """Change the price of an item"""
    return f"{item} now costs {price}."


free = Harness(tools=[look_up, tool(examples=[({"item": "tea", "price": 4}, "tea now costs 4.")])(set_price)])

gated = tool(only_after=only_after("look_up", same="item"), max_calls=2)(set_price)
hidden = Harness(tools=[look_up, gated])
refused = hidden.with_changes(gate=Gate(mode="refused"))
masked = hidden.with_changes(gate=Gate(mode="masked"))


@goal(prompt="Make tea cost 1 less than it costs now.")
def cheaper_tea(trial) -> bool:
    """The price was changed once, to the right number, and looked up before."""
    made = [(call.name, call.arguments) for call in trial.calls if call.result and not call.error]
    return made == [("look_up", {"item": "tea"}), ("set_price", {"item": "tea", "price": 4})]
