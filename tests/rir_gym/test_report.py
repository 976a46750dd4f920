"""Reports: every figure of the run in them, every text escaped, and nothing loaded from elsewhere."""

import json
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_gym.bench.document import Heading, Plot, Table, Text, html_page, markdown_text
from rir_gym.bench.folder import read_run
from rir_gym.bench.report import figures_json, report_blocks
from rir_gym.cli import main
from rir_gym.data import read_episodes

EVIL = "<script>alert(1)</script> | *b* `c` [d](e) \x1b[31m \ud800 &amp; ```"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run folder and its report."""
    out = tmp_path_factory.mktemp("bench") / "run"
    with pytest.MonkeyPatch.context() as patch:
        for arguments in (["bench", "smoke", "--out", out, "--episodes", 3, "--workers", 0], ["report", out]):
            patch.setattr(sys, "argv", ["rir-gym", *map(str, arguments)])
            with pytest.raises(SystemExit) as stopped:
                main()
            assert stopped.value.code == 0
    return out


class Page(HTMLParser):
    """Tags, the text of cells and captions, and whatever would be loaded."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.loads += [value for name, value in attributes if name in ("src", "href", "data", "action")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing(run):
    text = (run / "report" / "index.html").read_text("utf-8")
    page = Page(text)
    assert page.open == []
    assert page.loads == []
    assert "script" not in page.tags
    assert "url(" not in text
    assert text.count("http:") + text.count("https:") == text.count("http://www.w3.org/2000/svg")
    assert page.tags.count("svg") == len(list((run / "report" / "plots").glob("*.svg")))


def test_every_plot_of_the_markdown_is_a_file_and_well_formed(run):
    text = (run / "report" / "report.md").read_text("utf-8")
    linked = re.findall(r"\]\((plots/[^)]+)\)", text)
    there = {f"plots/{file.name}" for file in (run / "report" / "plots").iterdir()}
    assert len(linked) == len(set(linked))
    assert set(linked) == there
    for name in there:
        ElementTree.parse(run / "report" / name)
    for kind in ("auxiliary", "depth", "budget", "horizon"):
        assert any(kind in name for name in there), kind


def test_the_figures_are_those_of_the_records(run):
    told = json.loads((run / "report" / "figures.json").read_text())
    by_cell = {}
    for record in read_episodes(run):
        by_cell.setdefault(record["header"]["config"], []).append(record)
    assert len({json.dumps(cell["figures"], sort_keys=True) for cell in told["cells"]}) > 5
    plan = read_run(run).plan
    for cell in told["cells"]:
        section = next(each for each in plan.suite.sections if each.name == cell["section"])
        column = next(
            each
            for each in plan.columns(section)
            if (each.reviewer, each.agent_calls, list(each.horizon))
            == (cell["reviewer"], cell["agent_calls"], cell["horizon"])
        )
        records = by_cell[plan.places[section.name, column, cell["mechanism"]]]
        figures = cell["figures"]
        assert cell["n"] == figures["success"]["n"] == len(records) == 3
        assert figures["success"]["value"] == sum(r["result"]["success"] for r in records) / 3
        for name in ("agent_calls", "steps", "auxiliary", "rollbacks"):
            assert figures[name]["value"] == pytest.approx(sum(r["ledger"][name] for r in records) / 3)
            assert figures[name]["low"] <= figures[name]["value"] <= figures[name]["high"]
        assert figures["depth"]["n"] == sum(r["ledger"]["rollbacks"] for r in records)
        assert cell["uses_oracle"] == records[0]["header"]["mechanism"]["uses_oracle"]
        assert cell["labelled"] == 3


def test_tables_show_n_intervals_and_who_reads_the_oracle(run):
    text = (run / "report" / "report.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| rir †")]
    assert rows
    assert re.search(r"\| react \| \d+\.\d \\\[\d+\.\d, \d+\.\d\\\] \(3\) \|", text)
    assert "rir − best other" in text
    assert "Test seeds 50000 to 50002" in text
    assert "rir-gym bench apothecary --gold" in text
    assert "| mechanism | SR % (n) | DR (score) | steps | reviews | rollbacks | auxiliary calls |" in text
    evidence = text.split("Costs at reviewer evidence")[1].split("\n#")[0]
    assert "†" not in evidence  # nobody reads the oracle there
    html = (run / "report" / "index.html").read_text("utf-8")
    assert "<details>" in html


def test_the_same_run_gives_the_same_report(run):
    one = read_run(run)
    assert report_blocks(one, folder="x") == report_blocks(read_run(run), folder="x")
    assert figures_json(one) == figures_json(read_run(run))


def test_a_report_replaces_a_report_and_nothing_else(run, tmp_path, monkeypatch, capsys):
    def report(out):
        monkeypatch.setattr(sys, "argv", ["rir-gym", "report", str(run), "--out", str(out)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code, capsys.readouterr().err

    assert report(tmp_path / "a" / "b")[0] == 0
    (tmp_path / "a" / "b" / "plots" / "old.svg").touch()
    assert report(tmp_path / "a" / "b")[0] == 0
    assert not (tmp_path / "a" / "b" / "plots" / "old.svg").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    code, said = report(tmp_path / "mine")
    assert code == 2
    assert "holds 'thesis.tex'" in said
    assert len(list((tmp_path / "mine").iterdir())) == 1
    (tmp_path / "file").touch()
    assert report(tmp_path / "file")[0] == 2


# --- documents --------------------------------------------------------------------------------------------------------


def test_all_text_is_escaped_in_either_form():
    blocks = [
        Heading(2, EVIL), Text(EVIL), Text(EVIL, code=True), Table(EVIL, [EVIL, "b"], [[EVIL, "1"]]),
        Table(EVIL, [EVIL, "b"], [[EVIL, "1"]], folded=True), Plot("p", EVIL, "<svg></svg>"),
    ]  # fmt: skip
    page = html_page(EVIL, blocks)
    assert "<script" not in page
    assert "\x1b" not in page
    page.encode("utf-8")
    assert Page(page).open == []
    text = markdown_text(blocks)
    text.encode("utf-8")
    assert "\x1b" not in text
    outside = re.sub(r"```bash\n.*?\n```", "", text, flags=re.DOTALL)
    assert "<script" not in outside.replace("\\<", "")
    assert not re.search(r"(?<!\\)[`*]", outside)


@given(st.text())
def test_a_table_keeps_its_shape_in_markdown(text):
    lines = markdown_text([Table("c", ["a", "b"], [[text, "1"], ["x", text]])]).strip("\n").split("\n")[2:]
    assert len(lines) == 4
    for line in lines:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3


def test_folded_tables_are_on_demand():
    table = Table("more", ["a"], [["1"]], folded=True)
    assert "<details><summary>more</summary>" in html_page("t", [table])
    assert markdown_text([table]) == "\n"


def test_every_plot_is_written_as_png_too_where_that_is_asked(run, tmp_path, monkeypatch):
    pytest.importorskip("resvg_py", reason="PNG needs the extra plots")
    monkeypatch.setattr(sys, "argv", ["rir-gym", "report", str(run), "--png", "--out", str(tmp_path / "report")])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    drawn = sorted((tmp_path / "report" / "plots").glob("*.svg"))
    assert drawn
    for svg in drawn:
        assert svg.with_suffix(".png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
