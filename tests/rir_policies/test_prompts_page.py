"""docs/prompts.md is what the prompt files and the roles say now."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "render_prompts.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("render_prompts", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(script: Any) -> str:
    return str(script.page())


def test_the_page_is_up_to_date(script: Any, page: str) -> None:
    assert script.PAGE.read_text(encoding="utf-8") == page, "run: python docs/render_prompts.py"


def test_every_prompt_file_stands_there_with_an_example(script: Any, page: str) -> None:
    chapters = page.split("\n## ")[1:]
    assert [chapter.splitlines()[0] for chapter in chapters][:2] == ["system.txt", "status.txt"]
    assert len(chapters) == len(script._files())
    assert [chapter.splitlines()[0] for chapter in chapters if "In an episode of" not in chapter] == []
