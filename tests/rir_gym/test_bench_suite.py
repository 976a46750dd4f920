"""Suites as data: what is refused, what comes along, and how one is unrolled."""

import copy
import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_gym.bench.plan import plan_of
from rir_gym.bench.suite import Suite, budget_for
from rir_gym.bench.suite_file import load_suite, suite_names, suite_of
from rir_gym.errors import UnknownName, UsageError
from rir_gym.ids import IDS

SMOKE = tomllib.loads(files("rir_gym.bench").joinpath("suites", "smoke.toml").read_text("utf-8"))


def changed(path, value):
    """The smoke suite with one value replaced (or, where it is ..., taken out)."""
    table = copy.deepcopy(SMOKE)
    *way, last = path
    inner = table
    for step in way:
        inner = inner[step]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return table


@pytest.mark.parametrize("name", suite_names())
def test_every_suite_that_comes_along_is_whole(name):
    from rir_policies.mechanisms import MECHANISMS

    suite = load_suite(name)
    assert suite.name == name
    plan = plan_of(suite)
    assert {cell.mechanism for cell in plan.cells.values()} <= set(MECHANISMS)
    assert {world.env for world in suite.worlds} <= {known.id for known in IDS if known.policies}
    for cell in plan.cells.values():
        own = {c.agent_calls for c in plan.cells.values() if (c.world, c.reviewer) == (cell.world, cell.reviewer)}
        assert cell.agent_calls in own
    assert not set(suite.training) & {seed for _, seed in plan.order()}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("worlds", 0, "agent_calls"), 0, "agent_calls=0"),
        (("worlds", 0, "agent_calls"), -3, "agent_calls=-3"),
        (("worlds", 0, "agent_calls"), None, "agent_calls=None"),
        (("worlds", 0, "agent_calls"), True, "agent_calls=True"),
        (("worlds", 0, "agent_calls"), 30, "ceil"),
        (("worlds", 0, "gold"), ..., "gold: missing"),
        (("worlds", 0, "arguments"), [1], "a table is required"),
        (("worlds", 0, "wrong"), 1, "wrong"),
        (("worlds",), [], "worlds"),
        (("worlds",), "apothecary", "a list of tables"),
        (("worlds", 0), "apothecary", "a table"),
        (("reviewers", 0, "review"), "guess", "guess"),
        (("reviewers", 1, "recall"), 1.5, "recall=1.5"),
        (("reviewers", 1, "delay"), -1, "delay=-1"),
        (("reviewers", 1, "name"), "exact", "no name twice"),
        (("sections", 1, "agent_calls"), [0], "agent_calls=0"),
        (("sections", 1, "agent_calls"), [29, None], "agent_calls=None"),
        (("sections", 1, "agent_calls"), 29, "a list is required"),
        (("sections", 1, "rollbacks"), [0], "rollbacks=0"),
        (("sections", 1, "rollbacks"), ["many"], "rollbacks='many'"),
        (("sections", 0, "episodes"), 0, "episodes=0"),
        (("sections", 0, "mechanisms"), ["rir", "rir"], "none twice"),
        (("sections", 0, "mechanisms"), [1], "a list of names"),
        (("sections", 0, "reviewers"), ["nobody"], "nobody"),
        (("sections", 0, "worlds"), ["nowhere"], "nowhere"),
        (("sections", 0, "trust"), [2], "trust=2"),
        (("sections", 0, "slip"), [[0.1]], "slip="),
        (("sections", 2, "horizons"), [[8, 4]], "horizons"),
        (("sections", 2, "horizons"), [[0, 4]], "horizons"),
        (("sections", 2, "horizons"), [[4]], "horizons"),
        (("sections", 2, "horizons"), [4], "horizons"),
        (("sections", 3, "layout"), "heap", "layout"),
        (("training_seeds",), [50001, 1], "50001 is a test seed"),
        (("training_seeds",), [0], "training_seeds"),
        (("training_seeds",), [0, 0], "training_seeds=0"),
        (("first_seed",), -1, "first_seed=-1"),
        (("first_seed",), "0", "first_seed='0'"),
        (("seed_step",), 0, "seed_step=0"),
        (("caps",), {"lats": 0}, "caps.lats=0"),
        (("memory_position",), "middle", "middle"),
        (("labels",), 1, "labels=1"),
        (("name",), ..., "name: missing"),
        (("extra",), 1, "extra"),
    ],
)
def test_a_bad_suite_is_one_clear_error(path, value, said):
    with pytest.raises(UsageError) as error:
        suite_of(changed(path, value))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 60_000) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
places = [
    *[("worlds", 0, name) for name in SMOKE["worlds"][0]],
    *[("reviewers", 1, name) for name in SMOKE["reviewers"][1]],
    *[("sections", 2, name) for name in SMOKE["sections"][2]],
    *[(name,) for name in SMOKE],
]


@given(st.sampled_from(places), json_values)
def test_anything_else_in_a_suite_is_taken_or_refused_and_never_a_crash(place, value):
    try:
        suite = suite_of(changed(place, value))
    except UsageError:
        return
    assert isinstance(suite, Suite)


def test_suites_that_are_not_there(tmp_path):
    with pytest.raises(UnknownName, match=r"suite='nothing'.*smoke"):
        load_suite("nothing")
    with pytest.raises(UsageError, match="cannot be read"):
        load_suite(str(tmp_path / "none.toml"))
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe = [")
    with pytest.raises(UsageError, match="cannot be read"):
        load_suite(str(bad))
    bad.write_text("name = ")
    with pytest.raises(UsageError, match="not TOML"):
        load_suite(str(bad))


@pytest.mark.parametrize(("gold", "calls"), [(16, 29), (12, 22), (5, 9), (15.5, 28), (10, 18), (1, 2)])
def test_the_budget_is_the_ceiling_of_1_8_times_gold(gold, calls):
    assert budget_for(gold) == calls


def test_the_same_seeds_for_every_mechanism_and_the_mechanism_varies_fastest():
    plan = plan_of(load_suite("smoke"))
    order = list(plan.order())
    assert len(order) == len(set(order)) == sum(plan.episodes.values())
    seeds = [seed for _, seed in order]
    assert seeds == sorted(seeds)
    for seed in set(seeds):
        assert [digest for digest, other in order if other == seed] == list(plan.cells)


def test_a_cell_of_two_tables_is_played_once_for_the_larger_n():
    table = changed(("sections", 1, "episodes"), 9)
    plan = plan_of(suite_of(table))
    budget = next(section for section in plan.suite.sections if section.name == "budget")
    at_29 = next(column for column in plan.columns(budget) if column.agent_calls == 29)
    shared = plan.places["budget", at_29, "rir"]
    main = plan.suite.sections[0]
    assert plan.places["main", plan.columns(main)[0], "rir"] == shared
    assert plan.episodes[shared] == 9
    assert len(plan.cells) == 24


def test_own_caps_and_equal_rollbacks():
    table = changed(("caps",), {"restart": 7})
    table["sections"][0]["rollbacks"] = ["own", 2]
    plan = plan_of(suite_of(table))
    main = plan.suite.sections[0]
    found = {
        (column.rollbacks, name): plan.cells[plan.places["main", column, name]].rollbacks
        for column in plan.columns(main)
        for name in ("restart", "rir")
    }
    assert found == {("own", "restart"): 7, ("own", "rir"): 3, (2, "restart"): 2, (2, "rir"): 2}


def test_seeds_in_steps():
    suite = suite_of(changed(("seed_step",), 2) | {"first_seed": 50001, "training_seeds": [0, 30]})
    assert {seed % 2 for _, seed in plan_of(suite).order()} == {1}
    assert list(suite.training)[:3] == [0, 2, 4]


def test_what_a_model_is_changes_only_cells_with_a_model():
    table = copy.deepcopy(SMOKE)
    table["reviewers"].append({"name": "model", "review": "model", "where": "oracle"})
    table["sections"][0]["reviewers"] += ["model"]
    suite = suite_of(table)
    one, two = (plan_of(suite, extra={"model": name}) for name in "ab")
    different = [cell.reviewer.name for digest, cell in one.cells.items() if digest not in two.cells]
    assert set(different) == {"model"}
    assert len(different) == 5
