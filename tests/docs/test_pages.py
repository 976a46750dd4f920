"""What Sphinx does not see: links as a code host follows them, the README's Python and tables, the citation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from page_runner import play

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_FENCES = re.compile(r"^(`{3,}).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")


def slug(title: str) -> str:
    """The anchor that a code host makes of a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")


def prose(page: Path) -> str:
    """The page without blocks and code, where brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", _FENCES.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    text = _FENCES.sub("", page.read_text(encoding="utf-8"))
    return {slug(title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_leads_somewhere(page: Path) -> None:
    wrong = []
    for link in _LINK.findall(prose(page)):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


def test_the_check_of_links_sees_a_wrong_one(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A *fine* `title`: yes\n[a](b.md) `[x](y)`\n```\n[c](d.md)\n```\n", encoding="utf-8")
    assert _LINK.findall(prose(page)) == ["b.md"]
    assert anchors(page) == {"a-fine-title-yes"}


def test_the_readme_s_python_runs(tmp_path: Path) -> None:
    """Its shell commands are tested with the command line; setting up is what CI does."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("```bash", "```console")
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    (tmp_path / "run").mkdir()
    [said] = play(tmp_path / "README.md", tmp_path / "run")
    assert said.startswith("(0, 1, 2) (Node(id=0")


def test_the_readme_names_every_mechanism_environment_and_extra() -> None:
    from rir_gym.ids import IDS
    from rir_policies.mechanisms import MECHANISMS

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in MECHANISMS if f"`{name}`" not in text] == []
    textworld = "rir_gym/TextWorld-{Simple,CoinCollector,TreasureHunter,Cooking}-v0"
    named = text.replace(textworld, " ".join(f"rir_gym/TextWorld-{kind}-v0" for kind in textworld[19:-4].split(",")))
    assert [env_id.id for env_id in IDS if env_id.id not in named] == []
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert [name for name in extras if f"`{name}`" not in text and f"[{name}]" not in text] == []


def test_the_readme_sets_up_with_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Set up")[2].partition("\n## ")[0]
    commands = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    assert [command.strip() for command in commands] == [
        "pip install . && rir-gym demo",
        'pip install -e ".[test]" && python -m pytest -n auto --dist loadfile',
    ]


def test_the_citation_is_valid_and_names_this_version() -> None:
    yaml: Any = pytest.importorskip("yaml", reason="comes with the extra hf")
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"cff-version", "message", "title", "authors"} <= set(told)
    assert (told["cff-version"], told["type"]) == ("1.2.0", "software")
    assert (told["version"], told["license"]) == (project["version"], project["license"])
    paper = told["preferred-citation"]
    assert {"authors", "title", "type"} <= set(paper)
    assert [author["family-names"] for author in paper["authors"]] == ["Yu", "Yao", "Li", "Wang", "Wu"]
    assert "2609.18304" in paper["url"]
    assert paper["title"] in (ROOT / "README.md").read_text(encoding="utf-8")
