"""Families about records that only grow, and about what is sent for good: logs, ledger, reminders, orders."""

from __future__ import annotations

import json
import random
from collections import defaultdict

from rir_envs.workspace_family import (
    CHANGES,
    NOTHING,
    Draft,
    Family,
    Look,
    cents,
    document,
    lines,
    money,
    named,
    notes,
    pick,
    rows,
    subjects,
    table,
)
from rir_envs.workspace_goal import Content, Goal
from rir_envs.workspace_tables import ledger

__all__ = ["LEDGER", "LOGS", "ORDERS", "REMINDERS"]

_MACHINES = ("web-1", "web-2", "mail-1", "db-1", "db-2", "cache-1", "queue-1")
_CODES = ("disk", "fire", "heat", "power", "net")
_PAYERS = ("lumo", "nordia", "castel", "brava", "tonik", "velo")
_ACCOUNTS = ("rent", "travel", "sales", "tools", "power")
_NAMES = ("ines", "omar", "lea", "tomas", "ada", "bruno", "carla", "dario", "emil", "fanny", "gita", "hugo", "jana",
          "karl", "lukas", "mira")  # fmt: skip
_DEPOTS = ("north", "south", "east", "west")
_GOODS = ("lamps", "chairs", "clocks", "desks", "fans", "globes", "kettles", "radios", "vases", "bells")
_ROWS = "query books/ledger.sqlite SELECT account, amount, reference FROM entries"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _minutes(clock: str) -> int:
    return int(clock[:2]) * 60 + int(clock[3:])


def _draw_logs(rng: random.Random, size: int) -> Draft:
    machines = sorted(pick(rng, _MACHINES, 3))
    fast = {machine: rng.randrange(15, 90) if rng.random() < CHANGES else 0 for machine in machines[:2]}
    times = sorted(rng.sample(range(480, 1200), size))
    shown: dict[str, list[tuple[int, str]]] = {machine: [] for machine in machines}
    for number, time in enumerate(times):
        machine = machines[number] if number < 3 else rng.choice(machines)
        shown[machine].append((time + fast.get(machine, 0), f"ALARM {rng.choice(_CODES)}"))
    for events in shown.values():
        events += [(rng.randrange(480, 1200), "all quiet") for _ in range(4)]
    files = {
        f"logs/{machine}.log": document(rng, "", *(f"{_clock(time)} {what}" for time, what in sorted(events)))
        for machine, events in shown.items()
    }
    old = [f"0{rng.randrange(4, 8)}:{rng.randrange(10, 60)} {machines[0]} {rng.choice(_CODES)}" for _ in range(2)]
    files["incidents/master.log"] = document(rng, "", *sorted(old))
    said = [f"The clock of {machine} is {minutes} minutes fast." for machine, minutes in fast.items() if minutes]
    files["notes/clocks.txt"] = table("About the clocks", [*said, NOTHING])
    return Draft(
        "Bring the alarms together. Append every line with ALARM of the logs in logs/ to incidents/master.log, one "
        'line each, in the form "HH:MM MACHINE CODE", in the order of the true time, which is the time to be written. '
        "MACHINE is the name of the log without .log. Where a clock is fast, says notes/clocks.txt, the true time is "
        "so many minutes earlier. The lines that are there stay. Then move the three logs to archive/MACHINE.log. "
        f"Answer: how many of the appended alarms have the code {rng.choice(_CODES)}.",
        files,
    )


def _derive_logs(look: Look) -> Goal:
    found = [line.partition(": ") for line in look.ask("search ALARM").splitlines()[1:]]
    fast: dict[str, int] = defaultdict(int)
    for line in notes(look, "notes/clocks.txt"):
        if line.startswith("The clock "):
            fast[line.split()[3]] = int(line.split()[5])
    alarms = []
    for path, _, text in found:
        machine = path.removeprefix("logs/").removesuffix(".log")
        clock, _, code = text.split()
        alarms.append((_minutes(clock) - fast[machine], machine, code))
    master = Content("incidents/master.log", tuple([f"{_clock(t)} {machine} {c}" for t, machine, c in sorted(alarms)]))
    places = {"incidents/master.log": master}
    logs = sorted({path for path, _, _ in found})
    places |= {path.replace("logs/", "archive/"): Content(path) for path in logs}
    code = named(r"have the code (\w+)", look)
    return Goal(str(sum(one == code for _, _, one in alarms)), places, frozenset(logs))


def _draw_ledger(rng: random.Random, size: int) -> Draft:
    payers = pick(rng, _PAYERS, 4)
    account = {payer: rng.choice(_ACCOUNTS) for payer in payers}
    references = [f"r-{number}" for number in sorted(rng.sample(range(100, 200), size + 2))]
    payments = [(rng.choice(payers), money(rng.randrange(1000, 90000)), each) for each in references]
    posted = set(pick(rng, references, 2))
    said = []
    for payer in payers:
        if rng.random() < CHANGES / 3:
            others = [each for each in _ACCOUNTS if each != account[payer]]
            said.append(f"Payments of {payer} belong to {rng.choice(others)}.")
    for _, _, reference in payments:
        if reference not in posted and rng.random() < CHANGES / 12:
            said.append(f"The amount of {reference} is {money(rng.randrange(1000, 90000))}.")
    base = [f"{account[payer]} {amount} {each}" for payer, amount, each in payments if each in posted]
    base.insert(1, f"{rng.choice(_ACCOUNTS)} 100.00 opening")
    rules = [{"payer": payer, "account": account[payer]} for payer in payers]
    files = {
        "books/ledger.sqlite": ledger(base),
        "books/rules.json": (json.dumps(rules, indent=1) + "\n").encode(),
        "bank/statement.csv": table("payer,amount,reference", [",".join(each) for each in payments]),
        "notes/amendments.txt": table("Amendments", [*said, NOTHING]),
    }
    return Draft(
        "Post the payments in bank/statement.csv to the ledger books/ledger.sqlite (table entries: account, amount, "
        "reference), except those whose reference is there already. books/rules.json says to which account the "
        "payments of a payer go. notes/amendments.txt overrules rules and statement. The ledger only grows: a wrong "
        "entry cannot be taken out. Answer: the sum of the amounts of the entries that you post to the account "
        f"{rng.choice(list(account.values()))}.",
        files,
    )


def _derive_ledger(look: Look) -> Goal:
    rules = json.loads("\n".join(lines(look, "books/rules.json")))
    account = {rule["payer"]: rule["account"] for rule in rules}
    there = {line.split(", ")[2] for line in look.ask(_ROWS).splitlines()[2:]}
    corrected: dict[str, str] = {}
    for line in notes(look, "notes/amendments.txt"):
        words = line.rstrip(".").split()
        if line.startswith("Payments of "):
            account[words[2]] = words[5]
        elif line.startswith("The amount "):
            corrected[words[3]] = words[5]
    to_post = [
        (account[payer], corrected.get(reference, amount), reference)
        for payer, amount, reference in rows(look, "bank/statement.csv")
        if reference not in there
    ]
    wanted = named(r"to the account (\w+)\.", look)
    total = sum(cents(amount) for to, amount, _ in to_post if to == wanted)
    books = Content("books/ledger.sqlite", tuple([" ".join(each) for each in to_post]))
    return Goal(money(total), {"books/ledger.sqlite": books})


def _draw_reminders(rng: random.Random, size: int) -> Draft:
    names = sorted(pick(rng, _NAMES, size))
    owed = {name: rng.randrange(2000, 40000) for name in names}
    paying = pick(rng, names, size // 2)
    paid = {name: owed[name] if rng.random() < 0.7 else owed[name] // 2 for name in paying}
    said = []
    for name in names:
        if rng.random() < CHANGES / 3:
            left = owed[name] - paid.get(name, 0)
            returned = name in paid and left == 0
            said.append(f"The payment of {name} was returned." if returned else f"From {name} {money(left)} in cash.")
    order = list(names)
    rng.shuffle(order)
    files = {f"letters/letter-{i:02}.doc": document(rng, f"reminder {name}") for i, name in enumerate(order, 1)}
    files["accounts/unpaid.csv"] = table("name,amount", [f"{name},{money(owed[name])}" for name in names])
    files["accounts/payments.csv"] = table("name,amount", [f"{name},{money(paid[name])}" for name in sorted(paid)])
    files["notes/late.txt"] = table("What came late", [*said, NOTHING])
    return Draft(
        "Send the reminders. accounts/unpaid.csv says what everybody owed, accounts/payments.csv what they have paid "
        "since; notes/late.txt overrules it: money that came in cash was paid too, a returned payment was not paid. A "
        "letter is for the person in its subject. Whoever still owes something gets it: it is sent to them (send NAME "
        "PATH) and lies at sent/NAME.doc in the end. The other letters are deleted; letters/ is empty in the end. "
        "Nobody may get a letter that is not theirs or that they do not need. Answer: what is still owed in all.",
        files,
        tuple(names),
    )


def _derive_reminders(look: Look) -> Goal:
    letter = {words[1]: path for path, words in subjects(look).items() if words[0] == "reminder"}
    paid = {name: cents(amount) for name, amount in rows(look, "accounts/payments.csv")}
    for line in notes(look, "notes/late.txt"):
        words = line.rstrip(".").split()
        if line.startswith("The payment "):
            paid[words[3]] = 0
        elif line.startswith("From "):
            paid[words[1]] = paid.get(words[1], 0) + cents(words[2])
    owed = {name: cents(amount) - paid.get(name, 0) for name, amount in rows(look, "accounts/unpaid.csv")}
    debtors = [name for name, amount in owed.items() if amount > 0]
    places = {f"sent/{name}.doc": Content(letter[name]) for name in debtors}
    messages = frozenset((name, Content(letter[name])) for name in debtors)
    return Goal(money(sum(owed[name] for name in debtors)), places, frozenset(letter.values()), messages)


def _draw_orders(rng: random.Random, size: int) -> Draft:
    depots, goods = sorted(pick(rng, _DEPOTS, 3)), pick(rng, _GOODS, size)
    numbers = sorted(rng.sample(range(21, 99), size))
    orders = [{"order": n, "item": item, "count": rng.randrange(1, 6)} for n, item in zip(numbers, goods, strict=True)]
    stock, said = [], []
    for item in goods:
        counts = dict(zip(depots, rng.sample(range(6, 30), 3), strict=True))
        stock += [f"{depot},{item},{count}" for depot, count in counts.items()]
        if rng.random() < CHANGES / 2:
            said.append(f"In {rng.choice(depots)} there are {rng.choice((0, 40))} {item}.")
    order = list(numbers)
    rng.shuffle(order)
    files = {f"slips/slip-{i:02}.doc": document(rng, f"order {number}") for i, number in enumerate(order, 1)}
    files["orders/orders.json"] = (json.dumps(orders, indent=1) + "\n").encode()
    files["orders/stock.csv"] = table("depot,item,count", stock)
    files["notes/stocktake.txt"] = table("Stocktake", [*said, NOTHING])
    files["depots/shipped.log"] = document(rng, "", f"{rng.randrange(11, 20)} {depots[0]}")
    return Draft(
        "Hand the orders out. Each order in orders/orders.json goes to the depot that holds the most of its item, says "
        "orders/stock.csv; notes/stocktake.txt overrules it. The slip of an order has its number in its subject. For "
        "each order: its slip lies at depots/DEPOT/NUMBER.doc, is sent to the depot (send DEPOT PATH), and a line "
        '"NUMBER DEPOT" is appended to depots/shipped.log, in the order of the numbers, after the lines that are '
        f"there. In the end slips/ is empty. Answer: how many pieces go to {rng.choice(depots)} in all.",
        files,
        tuple(depots),
    )


def _derive_orders(look: Look) -> Goal:
    slip = {words[1]: path for path, words in subjects(look).items() if words[0] == "order"}
    stock: dict[str, dict[str, int]] = defaultdict(dict)
    for depot, item, count in rows(look, "orders/stock.csv"):
        stock[item][depot] = int(count)
    for line in notes(look, "notes/stocktake.txt"):
        if line.startswith("In "):
            _, depot, _, _, count, item = line.rstrip(".").split()
            stock[item][depot] = int(count)
    places: dict[str, Content] = {}
    messages, shipped, pieces = [], [], 0
    asked = named(r"pieces go to (\w+)", look)
    for order in json.loads("\n".join(lines(look, "orders/orders.json"))):
        number, held = str(order["order"]), stock[order["item"]]
        depot = max(held, key=lambda each: held[each])
        places[f"depots/{depot}/{number}.doc"] = Content(slip[number])
        messages.append((depot, Content(slip[number])))
        shipped.append(f"{number} {depot}")
        pieces += order["count"] if depot == asked else 0
    places["depots/shipped.log"] = Content("depots/shipped.log", tuple(shipped))
    return Goal(str(pieces), places, frozenset(slip.values()), frozenset(messages))


LOGS = Family("logs", "Bring the alarms together.", (5, 9, 14), _draw_logs, _derive_logs)
LEDGER = Family("ledger", "Post the payments", (6, 11, 18), _draw_ledger, _derive_ledger)
REMINDERS = Family("reminders", "Send the reminders.", (5, 8, 14), _draw_reminders, _derive_reminders)
ORDERS = Family("orders", "Hand the orders out.", (3, 4, 8), _draw_orders, _derive_orders)
