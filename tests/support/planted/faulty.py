"""Eight harnesses with planted faults. Their E follows from the scripts: `value(turns)` is 1 / max(1, turns - 1)."""

from __future__ import annotations

import json
import random
from datetime import date, timedelta

from daneel import Harness, tool
from tests.support.planted.base import Planted, Results, Script, fault

NAMES = ("Ada", "Grace", "Edsger", "Barbara", "Donald", "Tony", "Niklaus", "Frances", "John", "Alan")
TODAY = date(2026, 12, 1)


def _number(text: str) -> int:
    return sum(ord(char) * (place + 7) for place, char in enumerate(text)) % 9000 + 1000


@tool
def weather(city: str) -> str:
    """Say what the weather is like in a city"""
    return f"{_number(city) % 35} degrees and dry."


# -- dead tools: one that nobody calls, one that nobody sees


@tool
def translate(phrase: str, language: str) -> str:
    """Translate a phrase into another language"""
    return phrase


@tool(hidden_until=lambda calls: False)
def forecast(days: int) -> str:
    """Predict rain"""
    return "Rain."


def _dead(rng: random.Random) -> Script:
    city = rng.choice(NAMES) + "ville"
    answer = (lambda results: f"So it has {results[-1]}") if rng.random() < 0.8 else "I do not know."
    return Script([[("weather", {"city": city})]], answer)


dead = Planted(
    name="dead",
    harness=Harness(system="dead", tools=[weather, translate, forecast]),
    goals={"weather": ("What is the weather like?", _dead)},
    effectiveness={"weather": 0.8},
    faults=frozenset({fault("never_called", "translate"), fault("never_shown", "forecast")}),
)


# -- a broken tool, tried in half of the trials before one that works


@tool
def exchange_rate(currency: str) -> str:
    """Rate of a currency in euros"""
    raise ConnectionError("the bank does not answer")


@tool
def price_table(currency: str) -> str:
    """Euro values by the newspaper"""
    return f"One {currency} was worth {_number(currency) / 1000:.3f} euros yesterday."


def _broken(rng: random.Random) -> Script:
    currency = rng.choice(("dollar", "pound", "franc", "crown", "yen"))
    # in capitals, as banks write it: so it is no second try with the same words
    tries = [[("exchange_rate", {"currency": currency.upper()})]] if rng.random() < 0.5 else []
    return Script([*tries, [("price_table", {"currency": currency})]], lambda results: f"So: {results[-1]}")


broken = Planted(
    name="broken",
    harness=Harness(system="broken", tools=[exchange_rate, price_table]),
    goals={"money": ("How much is my money worth?", _broken)},
    effectiveness={"money": 0.5 * 1 + 0.5 / 2},
    faults=frozenset({fault("always_failing", "exchange_rate")}),
)


# -- two ways to one fact: a tool that says all, and one that takes a turn more


@tool
def almanac(day: str) -> str:
    """What is known of a day: week number, moon, saint"""
    return f"Week {_number(day) % 52 + 1}, waxing moon, feast of {NAMES[_number(day) % 10]}."


@tool
def church_calendar(year: int) -> str:
    """Feasts of a year"""
    return f"The feasts of {year} are in volume {year * 7}."


@tool
def open_volume(volume: int, page: int) -> str:
    """Read in a volume of the library"""
    return f"The feast of {NAMES[volume % 10]} is told of here."


def _two_ways(rng: random.Random) -> Script:
    day = (TODAY + timedelta(rng.randrange(300))).strftime("%d %B")
    if rng.random() < 0.5:
        return Script([[("almanac", {"day": day})]], lambda results: f"So: {results[-1]}")
    look = ("open_volume", {"volume": rng.randrange(1000, 2000), "page": rng.randrange(100, 400)})
    shelf = ("church_calendar", {"year": rng.randrange(1900, 2000)})
    return Script([[shelf], [look]] if rng.random() < 0.5 else [[look], [shelf]], lambda results: f"So: {' '.join(results)}")


two_ways = Planted(
    name="two_ways",
    harness=Harness(system="two_ways", tools=[almanac, church_calendar, open_volume]),
    goals={"feast": ("Whose feast is it?", _two_ways)},
    effectiveness={"feast": 0.5 * 1 + 0.5 / 2},
    faults=frozenset({fault("overlap", "almanac", "church_calendar"), fault("overlap", "almanac", "open_volume")}),
)


# -- one tool finds nothing, the next one is asked with the same words


@tool
def index_lookup(symbol: str) -> str:
    """Definition of a symbol by the prebuilt index"""
    return "" if _number(symbol) % 3 else f"{symbol} is defined at line {_number(symbol)}."


@tool
def grep_source(symbol: str) -> str:
    """Scan all files for text"""
    return f"{symbol} is defined at line {_number(symbol)}."


@tool
def blame(line: int) -> str:
    """Author who wrote a line"""
    return f"{NAMES[line % 10]} wrote it."


def _second_try(rng: random.Random) -> Script:
    symbol = rng.choice(NAMES).lower() + rng.choice(("_init", "_main", "_stop", "_poll"))
    first = [("index_lookup", {"symbol": symbol})]
    more = [[("grep_source", {"symbol": symbol})]] if _number(symbol) % 3 else []
    asks = [[("blame", {"line": rng.randrange(10, 99)})]] if rng.random() < 0.4 else []
    return Script([*asks, first, *more], lambda results: f"So: {results[-1]}")


SYMBOLS = [name.lower() + end for name in NAMES for end in ("_init", "_main", "_stop", "_poll")]
_missing = sum(_number(symbol) % 3 != 0 for symbol in SYMBOLS) / len(SYMBOLS)

second_try = Planted(
    name="second_try",
    harness=Harness(system="second_try", tools=[index_lookup, grep_source, blame]),
    goals={"symbol": ("Where is it defined?", _second_try)},
    effectiveness={
        "symbol": (1 - _missing) * (0.6 * 1 + 0.4 / 2) + _missing * (0.6 / 2 + 0.4 / 3),
    },
    # where the index has it nobody scans: so the two also stand in for each other
    faults=frozenset({fault("overlap", "index_lookup", "grep_source")}),
)


# -- one tool is only ever called for the argument of the next


@tool
def user_id(name: str) -> str:
    """Number of an account"""
    return f"{name} has account {_number(name)}."


@tool
def mail_address(account: str) -> str:
    """E-mail of somebody"""
    return f"It is {NAMES[int(account) % 10].lower()}{account}@example.org."


@tool
def office_hours(day: str) -> str:
    """When we are open"""
    return f"On {day} from 9 to 17."


def _in_two_steps(rng: random.Random) -> Script:
    name = rng.choice(NAMES) + rng.choice(("son", "ova", "ez"))
    number = str(_number(name))
    pair = [[("user_id", {"name": name})], [("mail_address", {"account": number})]]
    day = rng.choice(("Monday", "Tuesday", "Friday"))
    hours = [[("office_hours", {"day": day})]] if rng.random() < 0.5 else []
    turns = [*hours, *pair] if rng.random() < 0.5 else [*pair, *hours]
    return Script(turns, lambda results: f"So: {' '.join(results)}" if rng.random() < 0.9 else "No idea.")


in_two_steps = Planted(
    name="in_two_steps",
    harness=Harness(system="in_two_steps", tools=[user_id, mail_address, office_hours]),
    goals={"mail": ("How do I reach them?", _in_two_steps)},
    effectiveness={"mail": 0.9 * (0.5 / 2 + 0.5 / 3)},
    faults=frozenset({fault("succession", "user_id", "mail_address")}),
)


# -- what was said is asked again; what was written is read again


@tool
def cur_date() -> str:
    """Day of today"""
    return TODAY.isoformat()


@tool
def calendar_page(month: int) -> str:
    """Sheet of a month, and where we are on it"""
    return f"We are at {TODAY.isoformat()}."


@tool(effects="write")
def save_note(title: str, body: str) -> str:
    """Keep a note"""
    return "Done."


@tool(effects="read")
def show_note(title: str) -> str:
    """Look at what was noted"""
    return f"{title}: as you wrote it."


def _doubting(rng: random.Random) -> Script:
    title = f"note {rng.choice(NAMES)}"
    asks = [[("cur_date", {})]]
    if rng.random() < 0.6:
        asks.append([("calendar_page", {"month": 12})])
    writes = [[("save_note", {"title": title, "body": "the day"})]]
    if rng.random() < 0.6:
        writes.append([("show_note", {"title": title})])
    return Script([*asks, *writes], lambda results: f"So it is noted for {results[0]}.")


doubting = Planted(
    name="doubting",
    harness=Harness(system="doubting", tools=[cur_date, calendar_page, save_note, show_note]),
    goals={"note": ("Note what day it is.", _doubting)},
    effectiveness={"note": 0.16 / 2 + 0.48 / 3 + 0.36 / 4},
    faults=frozenset({fault("verification", "calendar_page", "cur_date"), fault("verification", "show_note", "save_note")}),
)


# -- names and descriptions


@tool(description="TODO")
def my_data() -> str:
    return "The stock is 4711 pieces."


@tool(name="warehouse_stock_report_daily")
def report_daily(hall: str) -> str:
    """Goods that came in. Takes no arguments"""
    return f"Hall {hall}: {_number(hall)} boxes."


@tool(name="warehouse_stock_report_weekly")
def report_weekly(hall: str) -> str:
    """Loss by mice and moths"""
    return f"Hall {hall}: {_number(hall)} holes."


@tool(name="get_the_telephone_number_of_the_person_in_charge")
def telephone(person: str) -> str:
    """Phone somebody"""
    return f"{person} has {_number(person)}."


def _badly_named(rng: random.Random) -> Script:
    every = [
        ("my_data", {}),
        ("warehouse_stock_report_daily", {"hall": rng.choice(NAMES)}),
        ("warehouse_stock_report_weekly", {"hall": rng.choice(NAMES)}),
        ("get_the_telephone_number_of_the_person_in_charge", {"person": rng.choice(NAMES)}),
    ]
    chosen = [call for call in every if rng.random() < 0.5]
    rng.shuffle(chosen)
    right = any(name == "my_data" for name, _ in chosen)
    return Script([[call] for call in chosen], lambda results: f"So: {' '.join(results)}" if right else "I cannot say.")


badly_named = Planted(
    name="badly_named",
    harness=Harness(system="badly_named", tools=[my_data, report_daily, report_weekly, telephone]),
    goals={"stock": ("How is our business?", _badly_named)},
    effectiveness={"stock": 0.5 * (1 / 8 + 3 / 8 / 2 + 3 / 8 / 3 + 1 / 8 / 4)},
    faults=frozenset(
        {
            fault("description", "my_data"),
            fault("description", "warehouse_stock_report_daily"),
            fault("ambiguity", "warehouse_stock_report_daily", "warehouse_stock_report_weekly"),
            fault("name", "get_the_telephone_number_of_the_person_in_charge"),
        }
    ),
)


# -- results that are long or formal, and a tool that is of no use too early


@tool
def event_log(service: str) -> str:
    """What happened in a service"""
    lines = [f"{_number(service + str(place))} heartbeat {service}{place} nominal" for place in range(60)]
    return "\n".join([*lines, f"crash of {service} at line {_number(service)}"])


@tool
def memory_use(service: str) -> dict[str, object]:
    """Bytes a program holds"""
    return {"status": {"code": 0}, "data": {"unit": "MB", "value": _number(service)}}


@tool
def compile_program(target: str) -> str:
    """Build it"""
    return f"Built {target} with stamp {_number(target)}."


@tool
def debugger(breakpoint: int) -> str:
    """Step through machine code"""
    return f"Stopped at {breakpoint * 31}."


def _sloppy(rng: random.Random) -> Script:
    service = rng.choice(NAMES).lower() + rng.choice(("d", "_worker", "_cron"))
    early = [[("debugger", {"breakpoint": rng.randrange(100, 999)})]] if rng.random() < 0.5 else []
    turns = [
        *early,
        [("compile_program", {"target": service})],
        [("debugger", {"breakpoint": rng.randrange(100, 999)})],
        [rng.choice((("event_log", {"service": service}), ("memory_use", {"service": service})))],
    ]
    place = len(early)

    def answer(results: Results) -> str:
        last = results[-1].splitlines()[-1]
        said = json.loads(last)["data"]["value"] if last.startswith("{") else last
        return f"So {results[place + 1]} {said}"

    return Script(turns, answer)


sloppy = Planted(
    name="sloppy",
    harness=Harness(system="sloppy", tools=[event_log, memory_use, compile_program, debugger]),
    goals={"bug": ("Why does it crash?", _sloppy)},
    effectiveness={"bug": 0.5 / 3 + 0.5 / 4},
    faults=frozenset(
        {
            fault("long_result", "event_log"),
            fault("formal_result", "memory_use"),
            fault("gate", "debugger", "compile_program"),
            # they stand in for each other, as each trial looks at one of the two
            fault("overlap", "event_log", "memory_use"),
        }
    ),
)

FAULTY = (dead, broken, two_ways, second_try, in_two_steps, doubting, badly_named, sloppy)
