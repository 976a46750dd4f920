"""The tree in the terminal: what it shows, that it fits, and that text stays text."""

import copy
import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from wandering import wandering_record

from rir_gym import (
    Budget,
    Decision,
    DecisionKind,
    Mechanism,
    Patch,
    Restore,
    RollbackWrapper,
    Verdict,
    VerdictKind,
    run,
)
from rir_gym.data.records import check_record, episode_record, header_of
from rir_gym.view.story import returns
from rir_gym.view.tree import episode_summary, episode_tree

GUIDES = "│├└─ "


def shown(renderable, *, width=80, styled=False):
    console = Console(
        width=width, file=io.StringIO(), force_terminal=styled, color_system="standard" if styled else None
    )
    console.print(renderable)
    return console.file.getvalue()


def tree_lines(record, *, width=80):
    return [line.rstrip() for line in shown(episode_tree(record, width=width), width=width).splitlines()]


def depth_of(line):
    return (len(line) - len(line.lstrip(GUIDES))) // 4


@pytest.fixture
def record(story):
    return record_of(story)


def record_of(story, **settings):
    episode = story.run(**settings)
    return episode_record(episode, header_of(story.env, story.mechanism, agent="script"))


def test_the_told_episode_line_by_line(record):
    assert tree_lines(record) == [
        "told, seed 7",
        "├── step 0  the top of a dark stair",
        "├── step 1  take lamp → stair 0, lamp True",
        "├── ✗ unreadable reply, nothing was done",
        "│   ├── step 2  go down → stair 1, lamp True",
        "│   ├── ? asks to go back to step 1",
        "│   ├── ◆ review: rollback, urgency 0.9: went down",
        "│   └── ↩ from step 2 to 1 (k=1): went down",
        "├── ◆ review: continue, urgency 0.25",
        "├── step 2  wait → stair 0, lamp True",
        "├── ◆ review: rollback, urgency 0.5: no stair goes up",
        "├── ✎ corrected at step 2 (k=0): no stair goes up",
        "├── step 3  open → the door opens  [1] terminated success",
        "├── ◆ review: continue, urgency 0",
        "└── ■ success, score 1 (terminated)",
    ]


def test_the_surviving_branch_is_bold_and_the_abandoned_one_dim(record):
    lines = shown(episode_tree(record), styled=True).splitlines()
    bold = [line for line in lines if "wait" in line]
    dim = [line for line in lines if "go down" in line and "step" in line]
    assert len(bold) == len(dim) == 1
    assert "\x1b[1m" in bold[0]
    assert "\x1b[2m" in dim[0].split("──")[1]
    assert "\x1b[1m" not in dim[0]


def test_the_summary_is_one_paragraph_of_what_matters(record):
    text = " ".join(shown(episode_summary(record)).split())
    for part in (
        ":Cellar · told · script · seed 7",
        "open the door with the lamp",
        "success, score 1 (terminated) after 3 surviving steps, return 1",
        "7 of 12 agent calls, 1 of 2 rollbacks, 4 steps, 4 reviews, 1 correction,",
        "200 prompt tokens, 50 reused tokens, 30 generated tokens, 10 auxiliary calls, 1 unreadable reply",
    ):
        assert part in text


def test_an_oracle_and_arguments_are_shown(record):
    record["header"]["mechanism"]["uses_oracle"] = True
    record["header"]["env"]["kwargs"] = {"level": 3, "hard": {"$float": "nan"}}
    text = " ".join(shown(episode_summary(record), width=200).split())
    assert "(level=3, hard=nan)" in text
    assert "told (uses the oracle)" in text


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("words", ["long " * 200, "水" * 300, "x" * 5000])
def test_every_line_fits_the_width_and_keeps_what_stands_at_its_end(story, width, words):
    record = record_of(story, say=lambda text: text + words)
    lines = tree_lines(record, width=width)
    assert len(lines) == 15
    assert max(map(cell_len, lines)) <= width
    [last] = [line for line in lines if "step 3" in line]
    if width >= 80:
        assert last.endswith("…  [1] terminated success")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("[bold]loud[/bold] [/] [link=x]y[/link]", "[bold]loud[/bold] [/] [link=x]y[/link]"),
        (":smile: 1 < 2", ":smile: 1 < 2"),
        ("a\nb\tc\r\u2028d", "a b c d"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07\x9b2J", "red ]0;title2J"),
        ("\u202eright to left\u200b", "right to left"),
        ("lone \ud800 half", "lone � half"),
    ],
)
def test_text_stays_text_and_controls_nothing(story, said, expected):
    record = record_of(story, say=lambda text: said)
    record["objective"] = record["memory"]["objective"] = record["header"]["agent"] = said
    record["events"][4]["diagnosis"] = record["events"][6]["memory"]["failure"]["cause"] = said
    record["result"]["final_response"] = said
    lines = tree_lines(record, width=100)
    assert lines[1] == f"├── step 0  {expected}"
    assert lines[6] == f"│   ├── ◆ review: rollback, urgency 0.9: {expected}"
    assert lines[7] == f"│   └── ↩ from step 2 to 1 (k=1): {expected}"
    assert lines[-1] == f"└── ■ success, score 1 (terminated), final response: {expected}"
    summary = shown(episode_summary(record))
    assert f"\n{expected}\n" in summary
    assert f"· {expected} ·" in " ".join(summary.split())
    (shown(episode_tree(record)) + summary).encode()


def test_a_long_objective_is_cut_where_one_can_see_it(record):
    record["objective"] = "word " * 1000
    told = shown(episode_summary(record), width=1000).splitlines()[1]
    assert (len(told), told[-1]) == (400, "…")


def test_values_that_are_no_text_are_shown_as_python_writes_them(record):
    record["nodes"][1]["action"] = {"$array": {"dtype": "<i8", "shape": [2], "data": [1, 2]}}
    record["nodes"][1]["observation"] = [0, {"$float": "inf"}]
    record["nodes"][1]["reward"] = {"$float": "nan"}
    assert "├── step 1  array([1, 2]) → [0, inf]  [nan]" in tree_lines(record)


def test_every_outcome_has_its_words(record):
    record = copy.deepcopy(record)
    record["events"][4]["outcome"] = "abandoned"
    record["events"][5]["point"] = None
    record["events"][3]["outcome"] = "declined"
    record["events"][8] = {**record["events"][8], "verdict": "unparsed", "outcome": "unparsed"}
    record["events"][10]["outcome"] = "refused"
    record["events"][13] |= {"decision": "final", "outcome": "submitted", "action": "42"}
    record["result"] |= {"success": False, "score": 0, "stopped": "agent_calls"}
    text = "\n".join(tree_lines(check_record(record)))
    for words in (
        "? asks to go back to step 1, declined",
        "◆ review: rollback, urgency 0.9, abandoned: went down",
        "✗ unreadable restore point, the rollback was given up",
        "✗ review: unreadable verdict",
        "◆ review: rollback, urgency 0.5, refused: no stair goes up",
        "! final response: 42",
        "■ no success, score 0 (agent calls spent)",
    ):
        assert words in text


# --- other shapes ---------------------------------------------------------------------------------------------------


def climb(story, jumps, *, calls):
    """An episode that steps "wait", and after step t of ``jumps`` (in order) goes back to the step given."""
    story.run()
    left = list(jumps)

    def when(views):
        return [
            Verdict(VerdictKind.ROLLBACK, diagnosis="again") if left and view.t == left[0][0] else Verdict.not_due()
            for view in views
        ]

    mechanism = Mechanism(
        "climb",
        act=lambda views: [Decision.act("wait") for _ in views],
        when=when,
        where=lambda views, verdicts: [Restore(view.restorable[left.pop(0)[1]]) for view in views],
        what=lambda views, verdicts, restores: [Patch(view.memory) for view in views],
    )
    env = RollbackWrapper(story.env.unwrapped)
    [episode] = run([env], mechanism, budget=Budget(calls, max(1, len(jumps))), seeds=[0])
    assert not left
    return check_record(episode_record(episode, header_of(env, mechanism, agent="climb")))


def test_a_long_run_is_one_flat_list(story):
    lines = tree_lines(climb(story, [], calls=300))
    assert {depth_of(line) for line in lines[1:]} == {1}
    assert sum("step" in line for line in lines) == 301


def test_a_fork_inside_an_abandoned_branch_hangs_below_it(story):
    record = climb(story, [(4, 3), (5, 1)], calls=10)
    steps = [(depth_of(line), int(line.split("step ")[1].split(" ")[0])) for line in tree_lines(record) if "→" in line]
    inner, outer = [(3, 4)], [(2, 2), (2, 3), (2, 4), (2, 5)]
    assert steps == [(1, 1), *outer[:2], *inner, *outer[2:], (1, 2), (1, 3)]
    marks = [line.strip(GUIDES) for line in tree_lines(record) if "↩" in line]
    assert marks == ["↩ from step 4 to 3 (k=1)", "↩ from step 5 to 1 (k=4)"]


def test_attempts_from_one_place_stand_in_order(story):
    record = climb(story, [(2, 1), (3, 1)], calls=9)
    lines = tree_lines(record)
    first = next(i for i, line in enumerate(lines) if "↩ from step 2 to 1" in line)
    second = next(i for i, line in enumerate(lines) if "↩ from step 3 to 1" in line)
    going = next(i for i, line in enumerate(lines) if line.startswith("├── step 2"))
    assert first < second < going


def test_a_run_that_stops_where_it_was_put_back_nests_all_it_tried(story):
    assert tree_lines(climb(story, [(2, 1)], calls=3)) == [
        "climb, seed 0",
        "├── step 0  the top of a dark stair",
        "├── step 1  wait → stair 0, lamp False",
        "│   ├── step 2  wait → stair 0, lamp False",
        "│   ├── ◆ review: rollback, urgency 0.5: again",
        "│   └── ↩ from step 2 to 1 (k=1)",
        "└── ■ no success, score 0 (agent calls spent)",
    ]


def test_a_jump_to_another_branch_has_no_depth():
    record = wandering_record(150, 30, nodes="tree")
    jumps = [back for back in returns(record) if back.depth is None]
    marks = [line for line in tree_lines(record, width=120) if "↪" in line]
    assert jumps
    assert 0 < len(marks) <= len(jumps)  # branches nested deeper than 8 are counted only
    assert all("of another branch" in line for line in marks)
    assert not any("k=-" in line or "k=0" in line for line in tree_lines(record, width=120) if "↩" in line)


def test_deep_nesting_is_counted_instead_of_shown(story):
    jumps = [(20 - i, 18 - i) for i in range(18)]
    record = climb(story, jumps, calls=200)
    lines = tree_lines(record)
    assert max(map(cell_len, lines)) <= 80
    assert max(map(depth_of, lines)) <= 9
    hidden = [line.strip(GUIDES) for line in lines if "more" in line]
    assert len(hidden) == 1
    shown_steps = sum(line.strip(GUIDES).startswith("step") for line in lines)
    assert shown_steps + int(hidden[0].split(" ")[0]) == len(record["nodes"])


def test_an_unstepped_end_and_a_plain_request(story):
    story.run()
    script = [Decision(DecisionKind.REQUEST), Decision(DecisionKind.FINAL, "I give up")]
    mechanism = Mechanism(
        "quits",
        act=lambda views: [script.pop(0) for _ in views],
        when=lambda views: [Verdict(VerdictKind.CONTINUE, 0.5) for _ in views],
        where=lambda views, verdicts: [],
        what=lambda views, verdicts, restores: [],
    )
    env = RollbackWrapper(story.env.unwrapped)
    [episode] = run([env], mechanism, budget=Budget(4), seeds=[0])
    assert tree_lines(episode_record(episode, header_of(env, mechanism, agent=None))) == [
        "quits, seed 0",
        "├── step 0  the top of a dark stair",
        "├── ? asks to go back, declined",
        "├── ◆ review: continue, urgency 0.5",
        "├── ! final response: I give up",
        "└── ■ no success, score 0 (final response), final response: I give up",
    ]
