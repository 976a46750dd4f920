"""A model from one word, and whole runs of the command line on a server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fake_server import chat_reply, serving

from rir_gym.cli.request import Request, config_of
from rir_gym.cli.run import main
from rir_gym.errors import ModelError, UsageError
from rir_policies.opening import model_identity, open_model
from rir_policies.served import ServedModel


def test_a_url_with_a_name_is_a_model_on_a_server() -> None:
    word = "https://host:8443/api/v1/?choose=text&timeout_s=9.5&retries=1&concurrency=2#org/model:4bit"
    model = open_model(word)
    assert isinstance(model, ServedModel)
    assert (model.name, model.wire.url, model.concurrency) == ("org/model:4bit", "https://host:8443/api/v1", 2)
    assert (model.wire.timeout_s, model.wire.retries) == (9.5, 1)
    assert open_model("http://host/v1#a#b").name == "a#b"


@pytest.mark.parametrize(
    "word",
    [
        "http://host/v1",
        "http://host/v1#",
        "http://host/v1?choose=guess#x",
        "http://host/v1?colour=red#x",
        "http://host/v1?timeout_s=soon#x",
        "http://host/v1?timeout_s#x",
        "http://#x",
        "http://user:word@host/v1#x",
        "http://[::1/v1#x",
    ],
)
def test_a_url_that_names_no_model_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        open_model(word)


def test_anything_else_is_loaded() -> None:
    pytest.importorskip("torch")
    with pytest.raises(ModelError, match="model='nowhere'"):
        open_model("nowhere")


def test_what_a_run_depends_on_is_the_model_and_how_it_chooses_not_how_it_is_reached() -> None:
    def config(word: str) -> Any:
        return config_of(Request("rir_gym/Apothecary-v0", "rir", model=word))

    base = config("http://host/v1?choose=text#m")
    assert config("http://host/v1/?retries=9&timeout_s=5&api_key_env=K&concurrency=1&choose=text#m") == base
    assert config("http://host/v1#m") != base
    assert config("http://host/v1?choose=text#n") != base
    assert model_identity("owner/model") == "owner/model"


def _player(path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
    """Writes what it is asked for, mostly with words around it."""
    said = body["messages"][-1]["content"]
    if found := re.search(r"Possible commands: (.*)", said):
        commands = found[1].split(" | ")
        return chat_reply(f"Action: {commands[body['seed'] % len(commands)]}", prompt=len(said), generated=2)
    if "Reply ROLLBACK" in said:
        return chat_reply(f"**{'ROLLBACK' if body['seed'] % 2 else 'CONTINUE'}**")
    if "from 0.0" in said:
        return chat_reply("Urgency: 0.7")
    if "first step" in said or "last step" in said or "Reply with its number" in said:
        return chat_reply(f"Step {re.findall(r'[0-9]+', said)[-1]}.")
    return chat_reply("The shelf was left unread, which spoilt the potion.")


@pytest.mark.parametrize("mechanism", ["react", "rir"])
def test_a_run_of_the_command_line_on_a_server(mechanism: str, tmp_path: Path, capsys: Any) -> None:
    with serving(_player) as asked:
        request = Request(
            "rir_gym/Apothecary-v0", mechanism, model=f"{asked.url}?choose=text#tiny", episodes=2, agent_calls=12
        )
        main(request, out=tmp_path / "run", existing="resume", as_json=True)
    lines = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text("utf-8").splitlines()]
    assert len(lines) == 2
    for record in lines:
        assert record["header"]["model"] == "tiny"
        assert "torch" not in record["header"]["versions"]
        assert record["ledger"]["agent_calls"] == 12
        assert record["ledger"]["unreadable_actions"] == 0
        assert record["ledger"]["generated_tokens"] > 0
    assert (sum(record["ledger"]["reviews"] for record in lines) > 0) == (mechanism == "rir")


def test_a_server_that_dies_leaves_the_finished_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[int] = []

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        asked_for.append(1)
        return _player(path, body, headers) if len(asked_for) < 20 else (400, {}, b'"gone"')

    with serving(answer) as asked:
        word = f"{asked.url}?choose=text&retries=0#tiny"
        request = Request("rir_gym/Apothecary-v0", "react", model=word, episodes=4, agent_calls=8)
        with pytest.raises(ModelError, match="gone"):
            main(request, out=tmp_path / "run", existing="resume", as_json=True)
    assert len((tmp_path / "run" / "episodes.jsonl").read_text("utf-8").splitlines()) == 2
