"""The page in a real browser: nothing fails, every node is reached, text stays text, search, themes, side by side."""

import copy
import time
from types import SimpleNamespace

import pytest
from chromium import browser, console, dark, size
from hostile import EVIL, hostile
from told_records import apothecary_records
from wandering import wandering_record

from rir_gym.data.records import episode_record, header_of
from rir_gym.view.page import write_page
from rir_gym.view.story import moments

PRESS = """
const key = arguments[0], node = document.activeElement || document.body;
node.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
"""
DOTS = "return document.querySelectorAll('circle[data-node]').length"
CHOSEN = "return [...document.querySelectorAll('.heading .number')].map((one) => parseInt(one.textContent.slice(5)))"


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as made:
        size(made, 1280, 900)
        yield made


@pytest.fixture
def open_page(driver, tmp_path):
    """Writes a page of records and opens it; nothing may have been told to the console at the end."""
    dark(driver, False)
    size(driver, 1280, 900)

    def opened(records, hash_="", **settings):
        path = tmp_path / "page.html"
        write_page(path, [("here", record) for record in records], title="a run", **settings)
        driver.get("about:blank")
        driver.get(f"{path.as_uri()}{hash_}")
        assert driver.execute_script("return document.documentElement.dataset.ready") is not None
        return SimpleNamespace(
            all=lambda css: driver.find_elements("css selector", css),
            one=lambda css: driver.find_element("css selector", css),
            run=driver.execute_script,
            press=lambda key: driver.execute_script(PRESS, key),
            chosen=lambda: driver.execute_script(CHOSEN),
            text=lambda css: driver.execute_script("return document.querySelector(arguments[0]).textContent", css),
        )

    console(driver)
    yield opened
    assert console(driver) == []


@pytest.fixture
def told(story):
    return episode_record(story.run(), header_of(story.env, story.mechanism, agent="script"))


@pytest.fixture(scope="module")
def model():
    return apothecary_records((0,), model=True, thought_tokens=4, agent_calls=24)[0]


def test_every_node_is_reached_by_click(open_page, told, model):
    for record in (told, model):
        page = open_page([record])
        for node in record["nodes"]:
            page.one(f"circle[data-node='{node['id']}']").click()
            assert page.chosen() == [node["id"]]


def test_every_node_is_reached_by_keys(open_page):
    record = wandering_record(60, 11, depths=(0, 2, 5))
    page = open_page([record])
    count = len(record["nodes"])
    seen = []
    for _ in range(count):
        seen += page.chosen()
        page.press("j")
    assert seen == list(range(count))
    reached = page.run(
        """
        const seen = new Set([0]), todo = [0];
        const press = (key) => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
        const at = () => Number(document.querySelector('[aria-selected=true]').dataset.node);
        const go = (id) => document.querySelector(`circle[data-node='${id}']`).dispatchEvent(new MouseEvent('click', {
          bubbles: true, clientX: document.querySelector(`circle[data-node='${id}']`).getBoundingClientRect().x + 4,
          clientY: document.querySelector(`circle[data-node='${id}']`).getBoundingClientRect().y + 4 }));
        while (todo.length) {
          const from = todo.pop();
          for (const key of ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown']) {
            go(from);
            press(key);
            if (!seen.has(at())) { seen.add(at()); todo.push(at()); }
          }
        }
        return [...seen].length;
        """
    )
    assert reached == count


def test_arrows_follow_the_branch_and_r_the_rollbacks(open_page, told):
    page = open_page([told])
    path = []
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "Home", "r", "End"):
        page.press(key)
        path += page.chosen()
    assert path == [1, 3, 4, 3, 2, 0, 2, 4]
    page.one("body").send_keys("k")
    assert page.chosen() == [3]


def test_a_search_over_the_tree_and_an_episode_without_a_step_are_drawn(open_page, told):
    tree, alone = wandering_record(80, 14, nodes="tree"), copy.deepcopy(told)
    alone["nodes"], alone["events"] = [{**alone["nodes"][0], "surviving": True}], []
    alone["result"] |= {"last": 0, "success": False}
    page = open_page([tree, alone], "#0.3")
    assert len(page.all(".stage path.back")) == tree["ledger"]["rollbacks"]
    assert not [path for path in page.all(".stage path") if "NaN" in path.get_attribute("d")]
    page.press("]")
    assert page.run(DOTS) == 1
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "j", "k", "r", "n", "End", "0", "+", "-"):
        page.press(key)
        assert page.chosen() == [0]


def test_a_node_shows_all_that_the_record_says_of_it(open_page, told):
    page = open_page([told], "#0.2")
    shown = page.text(".details")
    for words in (
        "go down",
        "stair 1, lamp True",
        "Asks to go back",
        "to step 1",
        "dropped",
        "urgency 0.9",
        "went down",
        "fact: it is dark below",
        "Resume at step 1 (k = 1)",
        "interval [1, 2]; confidence 0.75; stages: coarse, fine",
        "lamp in hand",
        "E fact: it is dark below (seen at step 2) [re-verify]",
        "H attempt 1, steps 1 to 2: abandoned",
        "F went down",
    ):
        assert words in shown
    assert page.all(".diff li.plus")
    assert not page.all(".message")
    for box in page.all(".card summary"):
        box.click()
    prompts = [node.text for node in page.all(".message .pre")]
    assert prompts.count("you review") == prompts.count("you fine") == prompts.count("you patch") == 1
    counts = {row.text.split(" ")[0]: row.text for row in page.all("table.ledger tbody tr")}
    assert counts["rollbacks"] == "rollbacks 0 +1 1 of 2"
    ledger = next(moment for moment in reversed(moments(told)) if moment.event["node"] == 2).ledger
    assert counts["auxiliary"].split(" ")[-1] == str(ledger["auxiliary"])


def test_hostile_text_stays_text(open_page, model, driver):
    page = open_page([hostile(model, lambda text: EVIL), model])
    clean = page.run("return document.scripts.length")
    for hash_ in ("", "#0.0", "#0.3", "#0.9", "#0+1"):
        page.run("location.hash = arguments[0]; return new Promise((done) => setTimeout(done, 30))", hash_)
        page.run("for (const box of document.querySelectorAll('details')) box.open = true")
        page.run("return new Promise((done) => setTimeout(done, 30))")
        assert page.run("return [window.hurt === undefined, document.images.length, document.scripts.length]") == [
            True,
            0,
            clean,
        ]
    page.run("location.hash = '#0.3'; return new Promise((done) => setTimeout(done, 30))")
    shown = page.text(".observation")
    assert "<script>window.hurt = 1</script></script><img src=x onerror='window.hurt = 1'><!-- <script> -->" in shown
    assert "\u2028\u2029\ufffd lone \ufffd \u2400 \u241b[31m \u27e8202e\u27e9" in shown


def test_the_policy_holds_against_a_script_put_into_the_page(open_page, told, driver):
    page = open_page([told])
    page.run(
        "const one = document.createElement('script'); one.textContent = 'window.hurt = 1'; document.body.append(one);"
    )
    assert page.run("return window.hurt === undefined")
    assert any("Content Security Policy" in line for line in console(driver))
    assert page.run("return performance.getEntriesByType('resource').length") == 0


def test_search_finds_what_the_record_says(open_page, told, model):
    page = open_page([model])
    box = page.one("input[type=search]")
    page.one("body").send_keys("/")
    assert page.run("return document.activeElement.type") == "search"
    box.send_keys("TOWER")
    wanted = {node["id"] for node in model["nodes"] if "tower" in f"{node['action']} {node['observation']}".lower()}
    marked = {int(dot.get_attribute("data-node")) for dot in page.all("circle.found")}
    assert wanted <= marked
    assert len(marked) < len(model["nodes"])
    assert page.text(".find [role=status]") == f"{len(marked)} of {len(model['nodes'])} nodes"
    box.send_keys("\ue007")
    first = page.chosen()[0]
    assert first in marked
    box.send_keys("\ue007")
    assert page.chosen()[0] in marked - {first}
    box.send_keys("\ue00c")
    assert not page.all("circle.found")
    page = open_page([told])
    page.one("input[type=search]").send_keys("you fine")
    assert page.text(".find [role=status]") == "none"
    page.one("input[type=checkbox]").click()
    assert [dot.get_attribute("data-node") for dot in page.all("circle.found")] == ["2", "3"]


def test_the_theme_follows_the_system_until_one_is_chosen(open_page, told, driver):
    theme = "return document.documentElement.dataset.theme"
    page = open_page([told])
    assert page.run(theme) == "light"
    dark(driver, True)
    soon = time.monotonic() + 20
    while page.run(theme) != "dark" and time.monotonic() < soon:
        time.sleep(0.05)  # the browser tells the page when it gets to it
    assert page.run(theme) == "dark"
    seen = []
    for _ in range(3):
        page.press("t")
        seen.append(page.run(theme))
    assert seen == ["light", "dark", "dark"]


CONTRAST = """
const light = (text) => {
  const [r, g, b] = text.match(/[0-9.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!/, 0\\)$/.test(colour) && colour !== 'transparent') return colour;
  }
  return 'rgb(255, 255, 255)';
};
const found = [];
for (const element of document.querySelectorAll('main *, header *')) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || element.disabled || !element.getClientRects().length || element.closest('.only-read')) continue;
  const style = getComputedStyle(element), svg = element.closest('svg');
  const a = light(svg ? style.fill : style.color), b = light(ground(svg ? svg.parentElement : element));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) found.push([element.textContent.slice(0, 30), element.getAttribute('class'), ratio.toFixed(2)]);
}
return found;
"""


@pytest.mark.parametrize("night", [False, True])
def test_all_text_is_readable_in_both_themes(open_page, told, model, driver, night):
    page = open_page([told, model])
    dark(driver, night)
    for hash_ in ("", "#0.2", "#1.7", "#0.3+1.1"):
        page.run("location.hash = arguments[0]; return new Promise((done) => setTimeout(done, 60))", hash_)
        page.run("for (const box of document.querySelectorAll('details')) box.open = true")
        page.run("return new Promise((done) => setTimeout(done, 200))")
        assert page.run(CONTRAST) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_never_wider_than_the_window(open_page, told, model, driver, width):
    size(driver, width, 900)
    page = open_page([told, model, wandering_record(120, 9), hostile(told, lambda text: text + "w" * 900)])
    for hash_ in ("", "#0.2", "#1.7", "#2.80", "#3.2", "#0+1"):
        page.run("location.hash = arguments[0]; return new Promise((done) => setTimeout(done, 60))", hash_)
        page.run("for (const box of document.querySelectorAll('details')) box.open = true")
        assert page.run("return document.documentElement.scrollWidth") <= width, hash_


def test_everything_that_can_be_used_has_a_name_and_shows_its_focus(open_page, told, model):
    page = open_page([told, model], "#1.4")
    nameless = """return [...document.querySelectorAll('button, input, select, summary, [role=tree], [role=treeitem]')]
      .filter((one) => !(one.getAttribute('aria-label') || one.textContent.trim() || (one.labels && one.labels.length)))
      .map((one) => one.outerHTML.slice(0, 80))"""
    assert page.run(nameless) == []
    at = page.one(f"#{page.one('[role=tree]').get_attribute('aria-activedescendant')}")
    assert (at.get_attribute("data-node"), at.get_attribute("aria-selected")) == ("4", "true")
    for _ in range(6):
        page.run("return 0")
        page.one("body").send_keys("\ue004")
        outline = (
            "const style = getComputedStyle(document.activeElement); return style.outlineStyle + style.outlineWidth"
        )
        assert page.run(outline) == "solid2px"
    page.run("document.body.focus(); document.activeElement.blur()")
    page.one("body").send_keys("?")
    assert page.run("return document.querySelector('dialog').open")
    page.one("dialog button").click()
    assert not page.run("return document.querySelector('dialog').open")


def test_the_list_is_sorted_filtered_and_opens_episodes(open_page):
    records = apothecary_records((3, 4, 5)) + apothecary_records((3,), mechanism="react")
    page = open_page(records)
    numbers = lambda: [int(row.get_attribute("data-episode")) for row in page.all("tbody tr")]  # noqa: E731
    assert numbers() == [0, 1, 2, 3]
    [by_rollbacks] = [one for one in page.all("th button") if one.text == "rollbacks"]
    by_rollbacks.click()
    counts = [records[number]["ledger"]["rollbacks"] for number in numbers()]
    assert counts == sorted(counts, reverse=True)
    by_rollbacks.click()
    assert [records[number]["ledger"]["rollbacks"] for number in numbers()] == sorted(counts)
    page.one("input[type=search]").send_keys("react seed 3")
    assert numbers() == [3]
    page.one("input[type=search]").clear()
    page.one("input[type=search]").send_keys(" ")
    boxes = {
        row.get_attribute("data-episode"): row.find_element("css selector", "input") for row in page.all("tbody tr")
    }
    beside = page.one(".filters button")
    boxes["1"].click()
    boxes["3"].click()
    assert not beside.is_enabled()
    boxes["1"].click()
    boxes["0"].click()
    assert beside.is_enabled()
    beside.click()
    assert len(page.all("[role=tree]")) == 2
    page.run("history.back(); return new Promise((done) => setTimeout(done, 100))")
    page.one("tbody tr[data-episode='2'] button").click()
    assert page.chosen() == [0]
    page.press("[")
    assert "episode 1" in page.text(".where")
    page.press("u")
    assert numbers()


def test_two_episodes_of_one_seed_stand_side_by_side(open_page, driver):
    one, other = apothecary_records((3,))[0], apothecary_records((3,), mechanism="react")[0]
    page = open_page([one, other], opened=(0, 1))
    assert page.chosen() == [0, 0]
    left, right = page.all(".pair > section")
    assert left.rect["x"] + left.rect["width"] <= right.rect["x"]
    assert len({tree.rect["y"] for tree in page.all(".stage")}) == 1
    branches = [[node for node in record["nodes"] if node["surviving"]] for record in (one, other)]
    pairs = zip(*branches, strict=False)
    same = next(
        i for i, (a, b) in enumerate(pairs) if (a["action"], a["observation"]) != (b["action"], b["observation"])
    )
    assert f"the same up to step {same - 1}." in page.text(".same")
    page.one(".same button").click()
    steps = [int(heading.text.split(" ")[1]) for heading in page.all(".heading h2")]
    assert steps == [same, same]
    page.all("[role=tree]")[1].send_keys("k")
    assert page.chosen()[1] == branches[1][same]["id"] - 1


def test_two_thousand_nodes_open_and_answer(open_page):
    record = wandering_record(2300, 200, depths=(0, 8, 20, 60))
    assert len(record["nodes"]) > 1900
    page = open_page([record])
    assert page.run(DOTS) == len(record["nodes"])
    assert float(page.run("return document.documentElement.dataset.ready")) < 30_000  # benchmarks/viewer.py measures
    page.press("End")
    assert page.chosen() == [record["result"]["last"]]
    assert page.run("const box = document.querySelector('.stage'); return box.scrollLeft > 0 || box.scrollTop > 0")
    for key in ("+", "-", "0", "l", "l"):
        page.press(key)
        assert page.run(DOTS) == len(record["nodes"])
