"""The page as a file: whole, in need of nothing else, no text in it is markup; a wrong wish is one error."""

import base64
import copy
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hostile import EVIL, HOSTILE, hostile
from told_records import apothecary_records, write_records
from wandering import wandering_record

from rir_gym.cli.view import main
from rir_gym.data.records import episode_record, header_of
from rir_gym.errors import MissingDependency, StoreError, UsageError
from rir_gym.view import page
from rir_gym.view.page import page_chunks, write_page
from rir_gym.view.picture import tree_svg
from rir_gym.view.png import png_of
from rir_gym.view.texts import restored


@pytest.fixture(scope="module")
def records():
    return apothecary_records((3, 5), agent_calls=28)


def text_of(records, **settings):
    return b"".join(page_chunks([("somewhere", one) for one in records], title="a run", **settings)).decode("ascii")


def blocks(text):
    found = re.findall(r"<script type='application/json'[^>]*id='([^']*)'>(.*?)</script>", text, re.DOTALL)
    return {name: json.loads(body) for name, body in found}


def test_the_page_holds_every_text_and_the_policy_admits_its_own_script_only(records):
    text = text_of(records)
    data = blocks(text)
    tables = [data["episode-0"]["texts"], data["episode-1"]["texts"]]
    for number, record in enumerate(records):
        for node, row in zip(record["nodes"], data[f"episode-{number}"]["nodes"], strict=True):
            assert restored(tables, number, row[4]) == node["observation"]
    policy = re.search(r'Content-Security-Policy\' content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; ")
    for tag, name in (("script", "script-src"), ("style", "style-src")):
        [body] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy


def test_the_page_loads_nothing(records):
    text = re.sub(r"<script type='application/json'.*?</script>", "", text_of(records), flags=re.DOTALL)
    urls = set(re.findall(r"[a-z]+://[^\s'\"]+", text))
    assert urls == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe|object|embed|base|form)\b|@import|url\(", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdj|\beval\b|new Function|fetch\(|XMLHttp|WebSocket|srcdoc", text)


def test_the_same_records_give_the_same_page(records):
    assert text_of(records) == text_of(copy.deepcopy(records))


@pytest.mark.parametrize("evil", [*HOSTILE, EVIL])
def test_no_text_is_markup(records, evil):
    plain, attacked = text_of(records[:1]), text_of([hostile(records[0], lambda text: evil)])
    for tag in ("<script", "</script", "<!--", "<img", "<style", "</style"):
        assert attacked.count(tag) == plain.count(tag)
    data = blocks(attacked)
    row = data["episode-0"]["nodes"][1]
    assert restored([data["episode-0"]["texts"]], 0, row[4]) == evil


def test_a_title_is_text(records):
    text = b"".join(page_chunks([("x", records[0])], title=EVIL)).decode("ascii")
    assert text.count("<script>") == 1
    assert "<img" not in text


def test_texts_are_shared_between_episodes(records):
    data = blocks(text_of([records[0], records[0]]))
    first, second = (sum(len(json.dumps(entry)) for entry in data[f"episode-{at}"]["texts"]) for at in (0, 1))
    assert second < first / 3


def test_a_page_without_episodes_and_one_too_large_are_refused_and_leave_nothing(tmp_path, records, monkeypatch):
    kept = tmp_path / "page.html"
    kept.write_text("earlier")
    with pytest.raises(UsageError, match="no episode"):
        write_page(kept, [], title="t")
    with monkeypatch.context() as small:
        small.setattr(page, "MAX_BYTES", 1000)
        with pytest.raises(UsageError, match="--episode"):
            write_page(kept, [("x", records[0])], title="t")
    assert kept.read_text() == "earlier"
    assert [item.name for item in tmp_path.iterdir()] == ["page.html"]
    for place in (tmp_path / "no" / "such" / "page.html", tmp_path, Path()):
        with pytest.raises(StoreError, match="cannot be written"):
            write_page(place, [("x", records[0])], title="t")
    assert [item.name for item in tmp_path.iterdir()] == ["page.html"]


# --- the picture ----------------------------------------------------------------------------------------------------


def test_the_picture_is_well_formed_and_says_what_happened(records):
    root = ElementTree.fromstring(tree_svg(records[0]))
    said = "\n".join(root.itertext())
    assert "rir_gym/Apothecary-v0 · rir · seed 3" in said
    assert said.count("↩ k=") == records[0]["ledger"]["rollbacks"]
    circles = [item for item in root.iter() if item.tag.endswith("circle")]
    assert len(circles) == len(records[0]["nodes"])


@pytest.mark.parametrize("evil", [*HOSTILE, EVIL])
def test_no_text_of_a_picture_is_markup(records, evil):
    svg = tree_svg(hostile(records[0], lambda text: evil))
    tags = {item.tag.split("}")[1] for item in ElementTree.fromstring(svg).iter()}
    assert tags <= {"svg", "title", "style", "rect", "text", "path", "circle", "g"}
    svg.encode("utf-8")


def test_pictures_of_all_sorts_are_well_formed(story):
    told = episode_record(story.run(), header_of(story.env, story.mechanism, agent="script"))
    alone = copy.deepcopy(told)
    alone["nodes"], alone["events"] = [{**alone["nodes"][0], "surviving": True}], []
    alone["result"] |= {"last": 0, "success": False}
    for record in [told, alone, wandering_record(300, 30), *apothecary_records((0,), model=True)]:
        ElementTree.fromstring(tree_svg(record))


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory, records):
    folder = tmp_path_factory.mktemp("runs")
    others = apothecary_records((3, 5), mechanism="react", agent_calls=28)
    return [write_records(folder / "rir", records), write_records(folder / "react", others)]


def asked(runs, **given):
    main(runs, **{"episode": None, "compare": None, "html": None, "svg": None, "png": None, **given})


def test_pages_of_runs_of_one_episode_and_of_a_pair(runs, tmp_path, capsys):
    for given, episodes, opened in (({}, 4, []), ({"episode": 2}, 1, []), ({"compare": (3, 1)}, 2, [0, 1])):
        asked(runs, html=tmp_path / "p.html", **given)
        data = blocks((tmp_path / "p.html").read_text())
        assert len(data["index"]["episodes"]) == episodes
        assert data["index"]["opened"] == opened
    names = [restored([data["index"]["texts"]], 0, head["mechanism"]) for head in data["index"]["episodes"]]
    assert names == ["react", "rir"]
    assert "2 episodes" in capsys.readouterr().out


def test_the_terminal_still_shows_trees(runs, capsys):
    asked(runs, episode=0)
    assert "rir, seed 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"episode": 9}, "has 4 episodes"),
        ({"episode": -1}, "counted from 0"),
        ({"compare": (0, 1), "html": "p"}, "one environment and seed"),
        ({"compare": (0, 0), "html": "p"}, "two different"),
        ({"compare": (0, 9), "html": "p"}, "has 4 episodes"),
        ({"compare": (0, 2)}, "give --html"),
        ({"svg": "p"}, "one episode"),
        ({"png": "p"}, "one episode"),
    ],
)
def test_what_is_asked_wrongly_is_one_error_and_writes_nothing(runs, tmp_path, given, words):
    files = {name: tmp_path / value for name, value in given.items() if name in ("html", "svg", "png")}
    with pytest.raises(UsageError, match=words):
        asked(runs, **{**given, **files})
    assert not list(tmp_path.iterdir())


def test_a_picture_as_svg_and_png(runs, tmp_path):
    pytest.importorskip("resvg_py", reason="PNG pictures need the extra 'plots'")
    asked(runs, episode=0, svg=tmp_path / "tree.svg", png=tmp_path / "tree.png")
    size = re.search(r"width='(\d+)' height='(\d+)'", (tmp_path / "tree.svg").read_text())
    wide, tall = map(int, size.groups())
    head = (tmp_path / "tree.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(head[16:20]), int.from_bytes(head[20:24])) == (2 * wide, 2 * tall)


def test_png_without_its_extra_is_one_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingDependency, match=r"rir-gym\[plots\]"):
        png_of("<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>")


@pytest.mark.parametrize(
    ("svg", "zoom"), [("no picture", 2), ("<svg", 2), ("<svg/>", 0), ("<svg/>", 21), ("<svg/>", float("nan"))]
)
def test_what_is_no_picture_is_one_error(svg, zoom):
    pytest.importorskip("resvg_py", reason="PNG pictures need the extra 'plots'")
    with pytest.raises(UsageError):
        png_of(svg, zoom=zoom)


def test_the_picture_of_the_docs_is_what_its_command_gives(tmp_path):
    docs = Path(__file__).parents[2] / "docs"
    [command] = re.findall(r"^rir-gym (run .*) --out runs/tree$", (docs / "viewer.md").read_text("utf-8"), re.MULTILINE)
    subprocess.run([sys.executable, "-c", _RUN, *command.split(), "--out", str(tmp_path / "tree")], check=True)
    asked([tmp_path / "tree"], svg=tmp_path / "tree.svg")
    assert (tmp_path / "tree.svg").read_bytes() == (docs / "pictures" / "tree.svg").read_bytes()


_RUN = "from rir_gym.cli import main; main()"
