"""Metrics against the truth, on hand-made trees where every value can be counted, and on episodes that were played."""

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rir_gym import Budget, RollbackWrapper, run
from rir_gym.bench.figures import cell_figures, episode_figures, margin
from rir_gym.bench.knowing import KNOWING, knowing_tallies
from rir_gym.bench.sidecar import Truth, TruthIndex, labelled_keys, read_truths, truth_line, truth_of
from rir_gym.bench.tree import branch, common, recoveries
from rir_gym.bench.truth import TRUTH, truth_tallies
from rir_gym.bench.views import agent_views, memory_of
from rir_gym.data.keys import Key, key_of
from rir_gym.data.records import episode_record, header_of
from rir_gym.errors import RecordError, UsageError
from rir_gym.memory import Fact, Failure, ReflectionMemory


def node(at, parent, step, action="a", summary="", **more):
    return {
        "id": at, "parent": parent, "step": step, "action": action, "summary": summary,
        "terminated": False, "truncated": False, **more,
    }  # fmt: skip


def act(at, step, action, outcome="executed"):
    return {"kind": "act", "node": at, "step": step, "action": action, "decision": "action", "outcome": outcome}


def review(at, step, verdict, outcome, learned=()):
    return {
        "kind": "review", "node": at, "step": step, "verdict": verdict, "outcome": outcome, "learned": list(learned)
    }  # fmt: skip


def where(at, step, target, target_step, interval=None):
    return {
        "kind": "where", "node": at, "step": step, "outcome": "", "interval": interval,
        "point": None if target is None else {"node": target, "step": target_step},
    }  # fmt: skip


def patch(at, step, failure=None):
    return {"kind": "patch", "node": at, "step": step, "outcome": "", "memory": {"failure": failure}}


def told(success=True):
    """0-1-2-3-4, lost from 3 on; from 4 back to 1, then 5-6. Reviews at 2, 4 and 6."""
    return {
        "nodes": [
            node(0, None, 0), node(1, 0, 1, "b1", "at one"), node(2, 1, 2, "b2"), node(3, 2, 3, "b3"),
            node(4, 3, 4, "b4"), node(5, 1, 2, "c2"), node(6, 5, 3, "c3"),
        ],
        "events": [
            act(0, 0, "b1"), act(1, 1, "b2"), act(2, 2, "x", "dropped"), review(2, 2, "continue", "continue"),
            act(2, 2, "b3"), act(3, 3, "b4"), act(4, 4, "b5", "dropped"),
            review(4, 4, "rollback", "rollback"), where(4, 4, 1, 1, [1, 3]),
            patch(4, 4, {"action": "b2", "conditions": "at  ONE"}),
            act(1, 1, "c2"), act(5, 2, "c3"), act(6, 3, "y", "dropped"), review(6, 3, "rollback", "refused"),
        ],
        "result": {"success": success, "score": 0.5, "stopped": "agent_calls"},
        "header": {"seed": 3},
        "ledger": {"agent_calls": 9},
    }  # fmt: skip


def truth(**columns):
    whole = {
        "distance": (6, 5, 4, float("inf"), float("inf"), 4, 3),
        "calls_left": (10, 9, 8, 6, 5, 4, 3),
        "wasted": (None, False, False, True, True, False, False),
        "harmful": (None, False, False, True, False, False, False),
        "lost": (False, False, False, True, True, False, False),
        "rescuable": (True,) * 7,
        "rescue": (0, 1, 2, 2, 1, 2, 3),
    } | columns
    return Truth(True, whole)


def test_the_tree_of_a_record():
    nodes = told()["nodes"]
    assert branch(nodes, 6) == [0, 1, 5, 6]
    assert common(nodes, 4, 6) == 1
    [one] = recoveries(told())
    assert (one.node, one.target, one.done) == (4, 1, True)
    assert one.patch["kind"] == "patch"


def test_reviews_and_localization_counted_by_hand():
    found = truth_tallies(told(), truth())
    assert found["recall_lost"] == (1, 1)  # the review at 4
    assert found["false_alarm_lost"] == (1, 2)  # 2 continued, 6 wanted a rollback
    assert found["recall_harmful"] == (1, 1)  # node 3 is new to the review at 4
    assert found["false_alarm_harmful"] == (1, 2)
    assert found["recall_wasted"] == (1, 1)
    assert found["delay"] == (1, 1)  # lost at step 3, noticed at step 4
    assert found["noticed"] == (1, 1)
    assert found["localization_exact"] == (1, 1)  # r* of node 4 is 1
    assert found["interval_hit"] == (1, 1)
    assert found["progress_lost"] == (0, 1)
    assert found["rescue"] == (0, 1)  # d = 5 from node 1, and 4 calls after the dropped one
    assert found["saved"] == (1, 1)


@pytest.mark.parametrize(
    ("rescue", "exact", "within", "progress"), [(1, 1, 1, 0), (2, 0, 1, 1), (3, 0, 0, 2), (0, 0, 1, 0)]
)
def test_how_far_a_restore_point_is_off(rescue, exact, within, progress):
    found = truth_tallies(told(), truth(rescue=(0, 1, 2, 2, rescue, 2, 3)))
    assert found["localization_exact"][0] == exact
    assert found["localization_within_1"][0] == within
    assert found["progress_lost"][0] == progress
    assert found["interval_hit"][0] == (1 <= rescue <= 3)


def test_what_is_not_known_counts_nowhere():
    names = ("wasted", "harmful", "lost", "rescuable", "rescue", "distance")
    found = truth_tallies(told(), truth(**dict.fromkeys(names, (None,) * 7)))
    assert set(found) == set(TRUTH)
    assert set(found.values()) == {(0, 0)}


def test_a_loss_beyond_rescue_asks_for_no_review():
    found = truth_tallies(told(), truth(rescuable=(True,) * 3 + (False,) * 2 + (True,) * 2))
    assert found["recall_lost"] == (0, 0)
    assert found["rescue"] == (0, 0)
    assert found["saved"] == (0, 0)


def test_an_upper_bound_proves_no_failed_rescue():
    known = truth()
    assert truth_tallies(told(), Truth(False, known.columns))["rescue"] == (0, 0)


def test_repeats_of_what_was_undone_and_recorded():
    record = told()
    assert knowing_tallies(record, None)["repeats"] == (0, 1)
    assert knowing_tallies(record, None)["recorded_repeats"] == (0, 1)
    record["events"][10]["action"] = "b2"
    found = knowing_tallies(record, None)
    assert found["repeats"] == (1, 1)
    assert found["recorded_repeats"] == (1, 1)  # conditions are compared with blanks and case folded


def fact(text, channel="fact", invariant=True):
    return {"channel": channel, "text": text, "step": 1, "invariant": invariant, "reverify": False}


def test_contradicted_facts_are_those_of_one_subject_with_another_value():
    record = told()
    record["events"][3]["learned"] = [
        fact("the book says: ash"), fact("the attic holds: bone"), fact("no subject here"),
        fact("door: open", "elimination"), fact("mood: good", invariant=False),
    ]  # fmt: skip
    record["events"][7]["learned"] = [
        fact("The Book  says: salt"),
        fact("the attic holds: bone"),
        fact("mood: bad", invariant=False),
    ]
    assert knowing_tallies(record, None)["contradicted"] == (1, 3)


def test_agreement_before_after_and_at_a_rollback():
    meant = ("b1", "b2", "x", "no", "no", "b5", "c2", "c3", None)
    found = knowing_tallies(told(), Truth(True, truth().columns, expert=meant))
    assert found["agreement_before"] == (4, 6)
    assert found["agreement_after"] == (2, 2)
    assert found["agreement_at"] == (1, 1)
    best = knowing_tallies(told(), Truth(True, truth().columns, best=("b1", "c2", None, None, None, "c3", "z")))
    assert best["agreement_before"] == (1, 2)
    assert best["agreement_after"] == (2, 3)


def test_figures_of_a_cell():
    def row(seed):
        result = {"success": seed % 2 == 0, "score": seed / 10}
        return episode_figures({**told(), "header": {"seed": seed}, "result": result}, truth() if seed else None)

    rows = [row(seed) for seed in range(10)]
    cell = cell_figures(rows, labelled=9)
    assert (cell.n, cell.figures["success"].value, cell.figures["success"].n) == (10, 0.5, 10)
    assert cell.figures["score"].value == pytest.approx(0.45)
    assert cell.figures["iqm"].value == pytest.approx(0.45)
    assert cell.figures["depth"] == cell.figures["depth"].__class__(3, 3, 3, 10)
    assert cell.depths == {3: 10}
    assert cell.figures["recall_lost"].n == 9  # one has no labels
    assert cell.figures["reviews"].n == 0  # this ledger has no such count
    assert margin(cell, cell).value == 0
    other = cell_figures(rows[:4])
    assert margin(cell, other).n == 4
    assert cell_figures(rows[::-1], labelled=9) == cell


def test_a_cell_needs_episodes_each_once():
    row = episode_figures(told(), None)
    for rows in ([], [row, row]):
        with pytest.raises(UsageError, match="episodes"):
            cell_figures(rows)


@pytest.mark.parametrize("score", [{"$float": "nan"}, float("inf")])
def test_a_score_that_is_no_number_is_unknown(score):
    row = episode_figures({**told(), "result": {"success": False, "score": score}}, None)
    assert row.score is None
    assert cell_figures([row]).figures["score"].n == 0


# --- what was played --------------------------------------------------------------------------------------------------


def test_views_put_together_again_are_those_that_the_agent_had(story):
    seen = []
    original = story.run

    def spied():
        from rir_gym import loop  # the views that the loop gives to act

        whole = loop._ask

        def ask(role, runs, *answers):
            if getattr(story, "mechanism", None) is not None and role is story.mechanism.act:
                seen.extend(each.view() for each in runs)
            return whole(role, runs, *answers)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(loop, "_ask", ask)
            return original()

    episode = spied()
    record = episode_record(episode, header_of(story.env, story.mechanism, agent="script"))
    again = list(agent_views(record))
    assert len(again) == len(seen) == 7
    for view, had in zip(again, seen, strict=True):
        assert (view.seed, view.objective, view.memory) == (had.seed, had.objective, had.memory)
        assert [(s.action, s.observation, s.reward) for s in view.history] == [
            (s.action, s.observation, s.reward) for s in had.history
        ]
        assert [s.admissible for s in view.history] == [s.admissible for s in had.history]
        assert (view.agent_calls, view.agent_calls_left) == (had.agent_calls, had.agent_calls_left)
        assert view.rollbacks_left == had.rollbacks_left
        assert view.signals == had.signals


@given(
    st.lists(
        st.builds(Fact, st.sampled_from(["fact", "elimination", "affordance"]), st.text(), st.none() | st.integers())
    ),
    st.none() | st.builds(Failure, st.text(), st.text(), st.text(), st.text()),
    st.text(),
)
def test_a_memory_comes_back_from_its_json(facts, failure, objective):
    memory = ReflectionMemory(objective).learn(facts).abandon(resumed_at=1, ended_at=3, route=("a",), failure=failure)
    assert memory_of(memory.to_json()) == memory
    assert memory_of({"kind": "notes"}) is None


def test_views_of_another_memory_are_unknown_and_of_no_record_an_error(story):
    record = episode_record(story.run(), header_of(story.env, story.mechanism, agent="script"))
    plans = {"kind": "plans"}
    events = [event | {"memory": plans} if event["kind"] == "patch" else event for event in record["events"]]
    for memory in (plans, record["memory"]):
        some = list(agent_views({**record, "memory": memory, "events": events}))
        assert [view is None for view in some] == [False] * 4 + [True] * 3  # empty until the first patch
        assert all(view.memory == ReflectionMemory(view.objective) for view in some[:4])
    with pytest.raises(RecordError, match="schema 1"):
        list(agent_views({**record, "nodes": [{}]}))


def played(seed, mechanism="rir"):
    from rir_gym.cli.worlds import make, scripted_mechanism

    env = make("rir_gym/Apothecary-v0", {})
    roles = scripted_mechanism("rir_gym/Apothecary-v0", mechanism, trust=1.0)
    [episode] = run([env], roles, budget=Budget(24), seeds=[seed])
    return episode_record(episode, header_of(env, roles, agent="scripted"))


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000))
def test_truth_survives_its_file_and_every_tally_is_a_share(seed):
    from rir_envs.apothecary_policies import Expert

    record = played(seed)
    env = gym.make("rir_gym/Apothecary-v0")
    known = truth_of(record, env, intent=Expert(trust=1.0, slip=0.0).intent)
    env.close()
    assert len(known.expert) == sum(event["kind"] == "act" for event in record["events"])
    whole = truth_tallies(record, known) | knowing_tallies(record, known)
    for name, (top, bottom) in whole.items():
        assert name in TRUTH + KNOWING
        assert bottom >= 0
        assert top >= 0
        if name not in ("delay", "progress_lost"):
            assert top <= bottom
    # The expert of this agent, without its slips, is what it did in about nine of ten calls.
    before = whole["agreement_before"]
    assert before[0] >= 0.5 * before[1] > 0


def test_labels_files_survive_torn_and_foreign_lines(tmp_path):
    file = tmp_path / "labels.jsonl"
    keys = [Key("c", f'{{"exact":{at}}},"exact":', at) for at in range(3)]
    lines = [truth_line(key, truth()) for key in keys]
    damaged = lines[1].replace(b'"lost":[false', b'"lost":{"a":1', 1)
    file.write_bytes(lines[0] + b"junk\n" + damaged + b"\xff\xfe{}\n[]\n" + lines[2] + lines[2][:40])
    assert labelled_keys(file) == {keys[0], keys[2]}
    assert dict(read_truths(file))[keys[0]] == truth()
    found = dict(TruthIndex(file).get([(key, key.seed) for key in keys]))
    assert found[0] == found[2] == truth()
    assert found[1] is None
    assert dict(TruthIndex(tmp_path / "none").get([(keys[0], "x")])) == {"x": None}


def test_without_an_oracle_and_expert_nothing_is_claimed(story):
    record = episode_record(story.run(), header_of(story.env, story.mechanism, agent="script"))
    known = truth_of(record, RollbackWrapper(type(story.env.unwrapped)()))
    assert set(known.best) == {None}
    assert known.expert is None
    assert key_of(record).seed == 7
    found = truth_tallies(record, known)
    assert found["recall_lost"] == (0, 0)
