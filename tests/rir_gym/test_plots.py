"""Plots: well-formed SVG whatever the labels and numbers, and each datum where it belongs."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rir_gym.errors import UsageError
from rir_gym.view.plots import Mark, Series, bar_rows, heat_map, line_plot, scatter_plot
from rir_gym.view.png import png_of
from rir_gym.view.svg import ticks

SVG = "{http://www.w3.org/2000/svg}"
numbers = st.floats(-1e6, 1e6, allow_nan=False)
words = st.text(max_size=12)
intervals = st.tuples(numbers, numbers, numbers).map(lambda t: (sorted(t)[1], min(t), max(t)))


def texts(svg):
    return [node.text for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@given(
    st.lists(st.builds(Mark, words, numbers, intervals, st.integers(0, 60), st.booleans()), min_size=1), words, words
)
def test_any_scatter_is_well_formed(marks, title, label):
    svg = scatter_plot(marks, title=title, x_label=label, y_label=label, flagged=label)
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert not re.search(r"\b(nan|inf)\b", re.sub(r"<(text|title).*?</\1>", "", svg))
    assert svg == scatter_plot(marks, title=title, x_label=label, y_label=label, flagged=label)


@given(
    st.lists(
        st.builds(Series, words, st.lists(st.tuples(numbers, intervals), min_size=1, max_size=4), st.integers(0, 60)),
        min_size=1,
        max_size=30,
    ),
    words,
)
def test_any_lines_are_well_formed(series, title):
    root = ElementTree.fromstring(line_plot(series, title=title, x_label="x", y_label="y"))
    assert len(list(root.iter(f"{SVG}polyline"))) == len(series)


@given(st.lists(st.tuples(words, st.dictionaries(st.integers(0, 40), st.integers(0, 10**6), max_size=5)), min_size=1))
def test_any_bars_are_well_formed(rows):
    svg = bar_rows(rows, title="t", x_label="k")
    assert [text for text in texts(svg) if text and text.startswith("n = ")] == [
        f"n = {sum(counts.values())}" for _, counts in rows
    ]


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.tuples(numbers, words), min_size=1), words)
def test_any_heat_map_is_well_formed(cells, name):
    svg = heat_map([name] * 4, list("abcd"), cells, title=name, row_label=name, column_label="c")
    root = ElementTree.fromstring(svg)
    assert len(list(root.iter(f"{SVG}rect"))) == 1 + len(cells)


def test_labels_are_text_and_nothing_else():
    evil = "</text><script>alert('x')</script>\x00\ud800&"
    for svg in (
        scatter_plot([Mark(evil, 1, (1, 1, 1))], title=evil, x_label=evil, y_label=evil, flagged=evil),
        line_plot([Series(evil, [(1, (1, 1, 1))])], title=evil, x_label=evil, y_label=evil),
        bar_rows([(evil, {1: 2})], title=evil, x_label=evil),
        heat_map([evil], [evil], {(0, 0): (1, evil)}, title=evil, row_label=evil, column_label=evil),
    ):
        assert "<script" not in svg
        assert "</text><script>alert('x')</script>&" in texts(svg)
        svg.encode("utf-8")


def test_higher_is_higher_and_further_is_further():
    svg = scatter_plot(
        [Mark("a", 1, (20, 10, 30)), Mark("b", 3, (80, 70, 90), 4)], title="", x_label="", y_label="", y_range=(0, 100)
    )
    a, b = [(float(node.get("cx")), float(node.get("cy"))) for node in ElementTree.fromstring(svg).iter(f"{SVG}circle")]
    assert a[0] < b[0]
    assert a[1] > b[1]


def test_styles_are_told_apart_without_colour():
    marks = [Mark("m", at, (at, at, at), at) for at in range(28)]
    svg = scatter_plot(marks, title="", x_label="", y_label="")
    root = ElementTree.fromstring(svg)
    kinds = [
        (node.tag.removeprefix(SVG), node.get("fill"), len((node.get("points") or "").split()))
        for node in root
        if node.tag.removeprefix(SVG) in ("circle", "polygon") or (node.tag == f"{SVG}rect" and node.get("x"))
    ]
    assert len(set(kinds)) == 28


@given(numbers, numbers)
def test_ticks_are_few_round_and_inside(a, b):
    low, high = min(a, b), max(a, b)
    found = ticks(low, high)
    assert 1 <= len(found) <= 6
    assert found == sorted(set(found))
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    assert all(low - slack <= value <= high + slack for value in found)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: scatter_plot([], title="", x_label="", y_label=""),
        lambda: scatter_plot([Mark("a", math.nan, (1, 1, 1))], title="", x_label="", y_label=""),
        lambda: line_plot([], title="", x_label="", y_label=""),
        lambda: line_plot([Series("a", [(0, (math.inf, 0, 0))])], title="", x_label="", y_label=""),
        lambda: bar_rows([], title="", x_label=""),
        lambda: bar_rows([("a", {1: -1})], title="", x_label=""),
        lambda: heat_map([], [], {}, title="", row_label="", column_label=""),
        lambda: ticks(1, 0),
        lambda: ticks(math.nan, 0),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw):
    with pytest.raises(UsageError):
        draw()


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def inside(field, x, y):
    left, top, wide, tall = (float(field.get(name)) for name in ("x", "y", "width", "height"))
    return left <= x <= left + wide and top <= y <= top + tall


def test_all_words_are_readable_on_their_ground():
    marks = [Mark(f"m{at}", at, (at, at, at), at, at % 2 == 0) for at in range(9)]
    lines = [Series(f"s{at}", [(0, (1, 0, 2)), (1, (2, 1, 3))], at) for at in range(9)]
    cells = {(0, at): (float(at), str(at)) for at in range(9)}
    for svg in (
        scatter_plot(marks, title="t", x_label="x", y_label="y", flagged="f"),
        line_plot(lines, title="t", x_label="x", y_label="y"),
        bar_rows([(f"r{at}", {at: 1}) for at in range(9)], title="t", x_label="x"),
        heat_map(["r"], list("abcdefghi"), cells, title="t", row_label="r", column_label="c"),
    ):
        root = ElementTree.fromstring(svg)
        fields = [node for node in root.iter(f"{SVG}rect") if node.get("height") == "46"]  # of the heat map
        for text in root.iter(f"{SVG}text"):
            x, y = float(text.get("x")), float(text.get("y"))
            under = [field for field in fields if inside(field, x, y)]
            a, b = luminance(text.get("fill")), luminance(under[-1].get("fill") if under else "#ffffff")
            assert (max(a, b) + 0.05) / (min(a, b) + 0.05) >= 4.5, text.text


def test_a_plot_as_png():
    pytest.importorskip("resvg_py", reason="PNG pictures need the extra 'plots'")
    svg = line_plot([Series("a", [(0, (1, 0, 2)), (1, (2, 1, 3))])], title="t", x_label="x", y_label="y")
    png = png_of(svg, zoom=1)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20]) == 720
