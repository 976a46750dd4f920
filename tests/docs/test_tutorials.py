"""Every tutorial, run as its reader would run it: its code blocks, in order, in a fresh folder."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest
from fake_server import chat_reply, serving
from page_runner import Block, blocks_of, play

PAGES = Path(__file__).parents[2] / "docs" / "tutorials"


@pytest.mark.parametrize("name", ["wrap_your_environment", "write_a_when", "study_depth"])
def test_a_tutorial_runs(name: str, tmp_path: Path) -> None:
    play(PAGES / f"{name}.md", tmp_path)


def test_the_tutorial_of_training_runs(tmp_path: Path) -> None:
    missing = [name for name in ("datasets", "transformers", "trl") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"the extra test: {', '.join(missing)} not installed")
    play(PAGES / "collect_and_finetune.md", tmp_path)


def test_the_tutorial_of_servers_runs_against_a_server(tmp_path: Path) -> None:
    """The server writes one of the choices that it is asked for, as a model would, or a sentence."""

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        assert path == "/v1/chat/completions"
        assert body["model"] == "Qwen/Qwen3-4B"
        rng = random.Random(body["seed"])
        return chat_reply(rng.choice(["CONTINUE", "go attic", "read", "0.5", "fact: the hall has three doors"]))

    with serving(answer) as asked:
        play(PAGES / "gpu_and_server.md", tmp_path, changes={"http://127.0.0.1:8000/v1": asked.url})
    assert len(asked.requests) > 100
    assert asked.at_once > 1, "episodes in lockstep ask at once"


def test_no_tutorial_is_left_out() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [page.stem for page in sorted(PAGES.glob("*.md")) if f'"{page.stem}' not in source] == []


# --- the runner itself ------------------------------------------------------------------------------------------------

PAGE = """# Page

```python
x = 2
print(x)
```

prints

```text
2
```

```bash
echo hi > file
```

```console
not run
```

```python
print(open("file").read(), x)
```
"""


def page_of(tmp_path: Path, text: str) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    return tmp_path / "page.md"


def test_blocks_share_a_namespace_and_a_folder(tmp_path: Path) -> None:
    assert blocks_of(PAGE)[0] == Block("python", "x = 2\nprint(x)\n", 4, "2\n")
    assert play(page_of(tmp_path, PAGE), tmp_path / "run") == ["2\n", "", "hi\n 2\n"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("```text\n2", "```text\n3", "line 4: the page says"),
        ("print(x)", "print(y)", "line 4: failed"),
        ("echo hi > file", "false | true", "line 15: failed"),
        ("print(x)", "import sys; sys.exit()", "line 4: ended the run"),
        ("x = 2", "raise SystemExit(0)", "ended the run"),
    ],
)
def test_a_page_that_is_wrong_fails(tmp_path: Path, old: str, new: str, said: str) -> None:
    page = page_of(tmp_path, PAGE.replace(old, new))
    with pytest.raises(AssertionError, match=said):
        play(page, tmp_path / "run")


def test_a_page_without_blocks_or_without_the_changed_text_fails(tmp_path: Path) -> None:
    page = page_of(tmp_path, "# Nothing\n")
    with pytest.raises(AssertionError, match="no block"):
        play(page, tmp_path / "run")
    with pytest.raises(AssertionError, match="does not say 'x'"):
        play(page, tmp_path / "run", changes={"x": "y"})
