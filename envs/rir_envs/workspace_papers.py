"""Families about documents that must get to their places: invoices, chapters, labels, backups. Knows no disk."""

from __future__ import annotations

import random

from rir_envs.workspace_family import (
    CHANGES,
    NOTHING,
    Draft,
    Family,
    Look,
    cents,
    document,
    money,
    named,
    notes,
    pick,
    rows,
    subjects,
    table,
)
from rir_envs.workspace_goal import Content, Goal, typed

__all__ = ["BACKUPS", "CHAPTERS", "INVOICES", "LABELS"]

_SUPPLIERS = ("lumo", "nordia", "castel", "brava", "tonik", "velo", "ostra", "pavo")
_TITLES = ("fog", "tide", "salt", "ember", "harbor", "mirror", "orchard", "signal", "thaw", "lantern", "quarry",
           "meadow", "anchor", "thicket", "gravel", "summit", "canyon", "willow")  # fmt: skip
_ROOMS = ("attic", "cellar", "garden", "kitchen", "lounge", "office", "pantry", "studio", "tower", "vault", "workshop",
          "yard", "hall", "library")  # fmt: skip
_ITEMS = ("lamp", "chair", "clock", "desk", "easel", "fan", "globe", "harp", "kettle", "mirror", "piano", "radio",
          "shelf", "vase")  # fmt: skip
_SERVICES = ("web", "mail", "cache", "queue", "search", "auth", "cron", "proxy", "metrics", "store")


def _draw_invoices(rng: random.Random, size: int) -> Draft:
    twice = max(1, size // 4)
    suppliers, numbers = pick(rng, _SUPPLIERS, 3), rng.sample(range(101, 200), size - twice)
    scans, said = [], []
    for place, number in enumerate(numbers):
        supplier = rng.choice(suppliers)
        for month in rng.sample(range(1, 10), 2 if place < twice else 1):
            total = money(rng.randrange(1000, 90000))
            scans.append(f"invoice {number} from {supplier} dated 2031-0{month}-1{rng.randrange(10)} total {total}")
        if place < twice and rng.random() < CHANGES:
            said.append(f"Of invoice {number} the earlier scan is the valid one.")
        if twice <= place < twice + 2 and rng.random() < CHANGES:
            said.append(f"Invoice {number} is from {rng.choice([s for s in suppliers if s != supplier])}.")
    rng.shuffle(scans)
    files = {f"inbox/scan-{i:02}.doc": document(rng, scan) for i, scan in enumerate(scans, 1)}
    files["notes/corrections.txt"] = table("Corrections to the invoices", [*said, NOTHING])
    return Draft(
        "File the invoices. Every scan in inbox/ names its invoice in its subject. Each invoice goes to "
        "filed/SUPPLIER/NUMBER.doc. Where two scans have the same number, the one with the later date is valid and the "
        "other is void: delete it. notes/corrections.txt overrules the scans. In the end inbox/ is empty. Answer: the "
        f"sum of the totals of the valid invoices from supplier {rng.choice(suppliers)}.",
        files,
    )


def _derive_invoices(look: Look) -> Goal:
    found = {path: words for path, words in subjects(look).items() if words[0] == "invoice"}
    said = notes(look, "notes/corrections.txt")
    from_whom = {words[1]: words[3] for words in found.values()}
    from_whom |= {line.split()[1]: line.split()[4][:-1] for line in said if line.startswith("Invoice ")}
    earlier = {line.split()[2] for line in said if line.startswith("Of invoice ")}
    places: dict[str, Content] = {}
    total = 0
    wanted = named(r"from supplier (\w+)", look)
    for number, supplier in from_whom.items():
        scans = sorted((words[5], path) for path, words in found.items() if words[1] == number)
        valid = scans[0 if number in earlier else -1][1]
        places[f"filed/{supplier}/{number}.doc"] = Content(valid)
        total += cents(found[valid][7]) if supplier == wanted else 0
    return Goal(money(total), places, frozenset(found))


def _draw_chapters(rng: random.Random, size: int) -> Draft:
    titles = pick(rng, _TITLES, size + 2)
    old, new = titles[:size], titles[size:]
    order = list(old)
    for title in new:
        order.insert(rng.randrange(2), title)
    files = {
        f"book/chapter-{i:02}.doc": document(rng, f"chapter {title} version 1 pages {rng.randrange(5, 30)}")
        for i, title in enumerate(old, 1)
    }
    drafts = [(title, version) for title in new for version in (1, 2)]
    rng.shuffle(drafts)
    for i, (title, version) in enumerate(drafts, 1):
        subject = f"chapter {title} version {version} pages {rng.randrange(5, 30)}"
        files[f"drafts/draft-{i}.doc"] = document(rng, subject)
    said = [f"Of {title} version 1 is to be printed." for title in new if rng.random() < CHANGES]
    files["notes/order.csv"] = table("position,title", [f"{i},{title}" for i, title in enumerate(order, 1)])
    files["notes/editor.txt"] = table("From the editor", [*said, NOTHING])
    return Draft(
        "Put the new chapters into the book. notes/order.csv lists all titles in their new order; the title of a "
        "document is in its subject. Chapter N of the book must lie at book/chapter-NN.doc, so older chapters move up. "
        "Of a title with several versions the highest is printed; notes/editor.txt overrules that. In the end drafts/ "
        "is empty: what is not printed is deleted. Answer: the number of pages of the whole book.",
        files,
    )


def _derive_chapters(look: Look) -> Goal:
    found = {path: words for path, words in subjects(look).items() if words[0] == "chapter"}
    said = {line.split()[1]: line.split()[3] for line in notes(look, "notes/editor.txt") if line.startswith("Of ")}
    places: dict[str, Content] = {}
    pages = 0
    for position, title in rows(look, "notes/order.csv"):
        versions = {words[3]: path for path, words in found.items() if words[1] == title}
        path = versions[said.get(title, max(versions))]
        places[f"book/chapter-{int(position):02}.doc"] = Content(path)
        pages += int(found[path][5])
    return Goal(str(pages), places, frozenset(path for path in found if path.startswith("drafts/")))


def _draw_labels(rng: random.Random, size: int) -> Draft:
    rooms, items = sorted(pick(rng, _ROOMS, size)), pick(rng, _ITEMS, size)
    now = dict(zip(rooms, items, strict=True))
    true = list(items)
    while sum(a != b for a, b in zip(items, true, strict=True)) < size - 1:
        rng.shuffle(true)
    counted, said = list(true), []
    if rng.random() < CHANGES:
        i, j = rng.sample(range(size), 2)
        counted[i], counted[j] = true[j], true[i]
        said = [f"The {true[k]} stands in the {rooms[k]}." for k in (i, j)]
    files = {f"labels/{room}.doc": document(rng, f"label {item}") for room, item in now.items()}
    files["notes/count.csv"] = table("room,item", [",".join(pair) for pair in zip(rooms, counted, strict=True)])
    files["notes/recount.txt"] = table("Second count", [*said, NOTHING])
    return Draft(
        "Put the labels right. Each document in labels/ is the label of the item in its subject and must lie at "
        "labels/ROOM.doc of the room where the item stands. notes/count.csv says where the items stand; "
        "notes/recount.txt overrules it. Write a file reports/moved.txt: for each label that belongs elsewhere than it "
        "lay at the start a line with the item, a blank and its room, in alphabetical order. Answer: how many these "
        "are.",
        files,
    )


def _derive_labels(look: Look) -> Goal:
    label = {words[1]: path for path, words in subjects(look).items() if words[0] == "label"}
    stands = {item: room for room, item in rows(look, "notes/count.csv")}
    for line in notes(look, "notes/recount.txt"):
        if line.startswith("The "):
            _, item, _, _, _, room = line.rstrip(".").split()
            stands[item] = room
    places = {f"labels/{room}.doc": Content(label[item]) for item, room in stands.items()}
    moved = [f"{item} {room}\n" for item, room in sorted(stands.items()) if label[item] != f"labels/{room}.doc"]
    places["reports/moved.txt"] = typed("".join(moved))
    return Goal(str(len(moved)), places)


def _draw_backups(rng: random.Random, size: int) -> Draft:
    services = sorted(pick(rng, _SERVICES, size))
    broken = sorted(pick(rng, services, size - 1))
    files: dict[str, bytes] = {}
    health, said = [], []
    for service in services:
        build = rng.randrange(20, 60)
        for at in (f"conf/{service}.conf", f"backup/tuesday/{service}.conf", f"backup/monday/{service}.conf"):
            files[at] = document(rng, f"service {service} build {build}")
            build -= rng.randrange(1, 5)
        good = rng.random() < 0.7
        health += [f"monday,{service},good", f"tuesday,{service},{'good' if good else 'bad'}"]
        if good and service in broken and rng.random() < CHANGES / 2:
            said.append(f"The backup of {service} of tuesday is tainted.")
    state = [f"{service},{'broken' if service in broken else 'running'}" for service in services]
    files["notes/status.csv"] = table("service,state", state)
    files["notes/health.csv"] = table("day,service,state", health)
    files["notes/incident.txt"] = table("About the incident", [*said, NOTHING])
    return Draft(
        "Restore the broken services. notes/status.csv says which are broken. For each of them the document "
        "conf/SERVICE.conf of now must be kept as evidence/SERVICE.conf, and the latest good backup must lie at "
        "conf/SERVICE.conf. notes/health.csv says which backups are good; a tainted one is not, says "
        "notes/incident.txt, which overrules it. Tuesday is later than monday. The backups must stay where they are. "
        "Answer: the sum of the builds (see the subjects) of all services, as they are then in conf/.",
        files,
    )


def _derive_backups(look: Look) -> Goal:
    build = {path: int(words[3]) for path, words in subjects(look).items() if words[0] == "service"}
    tainted = {line.split()[3] for line in notes(look, "notes/incident.txt") if line.startswith("The backup ")}
    good = {(day, service) for day, service, state in rows(look, "notes/health.csv") if state == "good"}
    places = {path: Content(path) for path in build if path.startswith("backup/")}
    total = 0
    for service, state in rows(look, "notes/status.csv"):
        live = f"conf/{service}.conf"
        if state == "running":
            total += build[live]
            continue
        day = "tuesday" if ("tuesday", service) in good and service not in tainted else "monday"
        places |= {f"evidence/{service}.conf": Content(live), live: Content(f"backup/{day}/{service}.conf")}
        total += build[f"backup/{day}/{service}.conf"]
    return Goal(str(total), places)


INVOICES = Family("invoices", "File the invoices.", (6, 11, 16), _draw_invoices, _derive_invoices)
CHAPTERS = Family("chapters", "Put the new chapters into the book.", (6, 8, 14), _draw_chapters, _derive_chapters)
LABELS = Family("labels", "Put the labels right.", (6, 9, 13), _draw_labels, _derive_labels)
BACKUPS = Family("backups", "Restore the broken services.", (4, 6, 10), _draw_backups, _derive_backups)
