"""What is done again from a record (ledger, memory), where nodes stand, and texts that are stored once."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from told_records import apothecary_records
from wandering import wandering_record

from rir_gym.data.records import episode_record, header_of
from rir_gym.view.layout import layout_of
from rir_gym.view.story import memory_text, moments, returns
from rir_gym.view.texts import Texts, restored


@pytest.fixture(scope="module")
def records():
    mechanisms = ("rir", "reflection_only", "rollback_only", "restart", "react")
    return [
        *(one for name in mechanisms for one in apothecary_records((0, 3), mechanism=name)),
        *apothecary_records((0, 1, 2), model=True, thought_tokens=4),
        wandering_record(220, 25),
        wandering_record(150, 40, depths=(0, 1, 2)),
        wandering_record(150, 30, nodes="tree"),
        *(apothecary_records((1,), mechanism=name, model=True)[0] for name in ("lats", "ga_rollback", "self_refine")),
    ]


@pytest.fixture
def told(story):
    return episode_record(story.run(), header_of(story.env, story.mechanism, agent="script"))


def test_the_ledger_done_again_is_the_recorded_one(records, told):
    for record in [*records, told]:
        assert moments(record)[-1].ledger == record["ledger"]


def test_every_count_only_grows(records):
    for record in records:
        for one, other in pairwise(moments(record)):
            assert all(one.ledger[name] <= other.ledger[name] for name in one.ledger)


def test_the_memory_done_again_is_the_recorded_one(records, told):
    for record in [*records, told]:
        assert moments(record)[-1].after == memory_text(record["memory"])
    assert sum(len({moment.after for moment in moments(record)}) > 3 for record in records) > 3


def test_each_node_is_made_by_the_act_that_stands_before_it(records, told):
    for record in [*records, told]:
        made = [(moment.made, moment.event) for moment in moments(record) if moment.made is not None]
        assert [node for node, _ in made] == list(range(1, len(record["nodes"])))
        for node, event in made:
            assert record["nodes"][node]["parent"] == event["node"]


def test_executed_rollbacks_are_found_with_their_depth(records, told):
    assert [(back.source, back.target, back.depth) for back in returns(told)] == [(2, 1, 1)]
    for record in records:
        found = list(returns(record))
        assert len(found) == record["ledger"]["rollbacks"]
        jumps = [back for back in found if back.depth is None]
        assert all(back.depth > 0 for back in found if back not in jumps)
        assert not jumps or record["header"]["mechanism"]["nodes"] == "tree"
    assert any(back.depth is None for record in records for back in returns(record))


def test_another_kind_of_memory_is_shown_as_it_is_written(told):
    told["memory"] = {"kind": "notes", "notes": ["one", {"a": {"$float": "nan"}}]}
    for event in told["events"]:
        if event["kind"] == "patch":
            event["memory"] = told["memory"]
    first, *_, last = moments(told)
    assert first.before is None
    assert last.after == "kind: notes\nnotes 1: one\nnotes 2.a: nan"


# --- layout ---------------------------------------------------------------------------------------------------------


def trees():
    """Parents of a random tree, in the order of its ids."""
    return st.lists(st.floats(0, 1, exclude_max=True), min_size=0, max_size=60).map(
        lambda draws: [None, *(int(draw * (at + 1)) for at, draw in enumerate(draws))]
    )


def nodes_of(parents):
    nodes = []
    for at, parent in enumerate(parents):
        nodes.append({"id": at, "parent": parent, "step": 0 if parent is None else nodes[parent]["step"] + 1})
    return nodes


@given(trees(), st.floats(0, 1, exclude_max=True))
def test_no_two_nodes_share_a_place_and_no_line_crosses_one(parents, where):
    nodes = nodes_of(parents)
    last = int(where * len(nodes))
    tree = layout_of(nodes, last=last)
    places = {(node["step"], tree.lane(node["id"])): node["id"] for node in nodes}
    assert len(places) == len(nodes)
    assert tree.lanes == 1 + max(lane for _, lane in places)
    assert sorted(node for branch in tree.branches for node in branch.nodes) == list(range(len(nodes)))
    at = last
    while at is not None:
        assert tree.lane(at) == 0
        at = nodes[at]["parent"]
    for branch in tree.branches[1:]:
        assert branch.lane > tree.lane(branch.fork)
        column = nodes[branch.fork]["step"]
        for lane in range(tree.lane(branch.fork) + 1, branch.lane):  # the line down passes here, just after the fork
            there = {(column, lane), (column + 1, lane)} & places.keys()
            assert all(nodes[places[place]]["parent"] == branch.fork for place in there)


def test_attempts_are_numbered_as_they_happened(records):
    for record in records:
        tree = layout_of(record["nodes"], last=record["result"]["last"], returns=returns(record))
        firsts = [branch.nodes[0] for branch in tree.branches[1:]]
        assert firsts == sorted(firsts)


def test_a_long_chain_and_a_wide_fan_are_placed_quickly():
    chain = layout_of(nodes_of([None, *range(20_000)]), last=20_000)
    assert (chain.steps, chain.lanes) == (20_000, 1)
    fan = layout_of(nodes_of([None, *[0] * 2_000]), last=0)
    assert (fan.steps, fan.lanes) == (1, 2_001)


# --- texts ----------------------------------------------------------------------------------------------------------

any_text = st.text(st.characters(exclude_categories=()), max_size=120)


@given(st.lists(st.tuples(any_text, st.sampled_from(["", "a", "b"])), max_size=30))
def test_every_text_comes_back(added):
    seen = {}
    tables = [Texts(0, seen), Texts(1, seen)]
    places = [(at % 2, tables[at % 2].add(text, channel)) for at, (text, channel) in enumerate(added)]
    entries = [json.loads(json.dumps(table.entries)) for table in tables]
    for (table, index), (text, _) in zip(places, added, strict=True):
        assert restored(entries, table, index) == joined(text)


@given(st.lists(st.sampled_from("ab\U0001f600\ud83d\ude00x "), max_size=400), st.data())
def test_texts_that_grow_or_change_in_the_middle_come_back(letters, data):
    table, text, all_of_them = Texts(), "start " * 40, []
    for _ in range(6):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + "".join(letters[: data.draw(st.integers(0, len(letters)))]) + text[at:]
        all_of_them.append((table.add(text, "c"), text))
    for index, said in all_of_them:
        assert restored([table.entries], 0, index) == joined(said)


def joined(text):
    """Two lone surrogates that meet are one character in UTF-16, as in JavaScript."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def test_a_growing_prompt_costs_what_was_added():
    table, text = Texts(), "You are an agent in a house.\n"
    for step in range(1_000):
        text += f"step {step}: you went on and saw a door\n"
        index = table.add(text, "act")
    assert len(json.dumps(table.entries)) < 3 * len(text)
    assert restored([table.entries], 0, index) == text
