"""Marks, drawings, figure files, packed data: what pages are made of."""

from __future__ import annotations

import re
import struct
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world.hostile import HOSTILE
from world.page_runs import unpacked

from kgedit.analysis.tables import Estimate
from kgedit.pages.change_figures import word_cloud
from kgedit.pages.charts import Scale, common_top, percent, ticks
from kgedit.pages.charts.bars import (
    Cost,
    FoundBar,
    HeatCell,
    HeatRow,
    count_bars,
    found_bars,
    heat_map,
    histogram,
    memory_bars,
    time_dots,
    waterfall,
)
from kgedit.pages.charts.lines import Curve, ForestRow, Slope, Tradeoff, curves, forest, slopes, tradeoffs, year_dots
from kgedit.pages.marks import (
    COLUMN_MM,
    DARK,
    LIGHT,
    PAGE_MM,
    Drawing,
    Figure,
    as_printed,
    as_variable,
    figure_svg,
    shortened,
    spread,
    text_width,
    to_svg,
    write_figures,
)
from kgedit.pages.shell import NOTHING, Numbered, packed

HALF = Estimate(0.5, 0.25, 0.75, 20)


def drawings(name: str) -> list[Drawing]:
    """One of every kind of chart, each with this name in it."""
    return [
        forest(name, [ForestRow(name, 0.1, HALF, HALF)]),
        slopes(name, [Slope(name, HALF, Estimate(0.1, 0.0, 0.2, 20))]),
        tradeoffs(name, [Tradeoff(name, HALF, HALF)]),
        curves(name, [Curve(name, ((0, HALF), (10, HALF)))], role="free"),
        heat_map(name, [name], [HeatRow(name, "3", (HeatCell(0.5, 20, tooltip=name),))], role="free", note=name),
        found_bars(name, [FoundBar(name, 4, 3)]),
        time_dots([Cost(name, 0.2, 1.0), Cost("free of charge", None, 1.0)]),
        memory_bars([Cost(name, 0.2, 1.0)]),
        count_bars(name, [(name, 3)]),
        histogram(name, [(name, 3, 1)], parts=(name, "new")),
        waterfall(name, 10, [(name, 3)], "cases", first=name),
        year_dots(name, [(2019, HALF), (2023, HALF)], role="free", cutoff="2022-09", sides=(HALF, HALF)),
        word_cloud(name, {name: 3, "other": 1}),
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_every_chart_shows_any_name_as_text(name: str) -> None:
    for drawing in drawings(name):
        root = ElementTree.fromstring(re.sub("[\x00-\x08]", "", to_svg(drawing, as_variable)))
        assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
            *("svg", "text", "line", "rect", "circle", "polyline", "title")
        }
        assert not [key for element in root.iter() for key in element.attrib if key.startswith("on")]


def test_charts_draw_nothing_beyond_their_edges() -> None:
    for drawing in drawings("a method"):
        for mark in drawing.marks:
            places = dict(mark.attributes)
            for start, length in (("x", "width"), ("cx", "r"), ("x1", ""), ("x2", "")):
                if start in places:
                    end = float(places[start]) + float(places.get(length, 0))
                    assert -1 <= float(places[start]) <= end <= drawing.width + 1, (drawing.title, mark)


WORDS = st.text(st.characters(categories=("Lu", "Ll", "Nd", "Lo")), min_size=1, max_size=14)


@given(st.dictionaries(WORDS, st.integers(1, 200), min_size=1, max_size=60))
def test_words_of_a_cloud_neither_overlap_nor_leave_the_ground(counts: dict[str, int]) -> None:
    drawing = word_cloud("Words", counts)
    boxes = []
    for mark in drawing.marks[1:]:
        places = dict(mark.attributes)
        size, x, y = (float(places[name]) for name in ("font-size", "x", "y"))
        half = float(places["textLength"]) / 2  # whatever the font
        boxes.append((x - half, y - 0.77 * size, x + half, y + 0.23 * size))
    for left, top, right, bottom in boxes:
        assert -0.1 <= left < right <= drawing.width + 0.1
        assert 20 <= top < bottom <= drawing.height + 0.1
    for (left, top, right, bottom), (other_left, other_top, other_right, other_bottom) in combinations(boxes, 2):
        apart = right <= other_left or other_right <= left or bottom <= other_top + 0.1 or other_bottom <= top + 0.1
        assert apart


def test_the_most_frequent_word_is_the_largest_and_in_the_middle() -> None:
    drawing = word_cloud("Words", {"Minister": 40, "Prime": 40, "President": 10, "Academy": 1})
    sizes = {mark.text: float(dict(mark.attributes)["font-size"]) for mark in drawing.marks[1:]}
    assert list(sizes) == ["Minister", "Prime", "President", "Academy"]
    assert sizes["Minister"] == sizes["Prime"] == pytest.approx(2 * sizes["President"], abs=0.1)
    assert float(dict(drawing.marks[1].attributes)["x"]) == pytest.approx(drawing.width / 2)
    assert drawing == word_cloud("Words", {"Academy": 1, "President": 10, "Prime": 40, "Minister": 40})


def test_years_have_a_line_at_the_end_of_the_cutoffs_month() -> None:
    drawing = year_dots("Years", [(2020, HALF), (2023, HALF)], role="free", cutoff="2022-06", sides=(HALF, None))
    (cutoff,) = (mark for mark in drawing.marks if "stroke-dasharray" in dict(mark.attributes))
    first, last = (float(dict(mark.attributes)["cx"]) for mark in drawing.marks if mark.tag == "circle")
    # 2022-06 ends in the middle of 2022; the dots are in the middles of 2020 and 2023.
    assert float(dict(cutoff.attributes)["x1"]) == pytest.approx(first + (last - first) * 2 / 3)
    assert "up to it 50.0 %" in drawing.title or "up to it 50 %" in drawing.title


def test_a_page_paints_roles_as_variables_and_a_file_as_light_colours() -> None:
    drawing = forest("Update", [ForestRow("rag", None, HALF, None)])
    assert "var(--free)" in to_svg(drawing, as_variable)
    printed = figure_svg(Figure("comparison", "Comparison", (drawing,)))
    assert "var(" not in printed
    assert LIGHT["free"] in printed
    assert as_printed("ground") == "#ffffff"


def test_both_themes_have_the_same_roles_and_readable_words() -> None:
    """4.5 to 1 for words on the ground (WCAG 2.1, 1.4.3)."""
    assert LIGHT.keys() == DARK.keys()
    for palette in (LIGHT, DARK):
        for role in ("ink", "ink2", "muted", "free-text", "forced-text", "bad-text", "good-text"):
            assert contrast(palette[role], palette["ground"]) >= 4.5, role


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_figure_is_as_wide_as_a_column_or_a_page_of_a_paper() -> None:
    one = forest("Update", [ForestRow("rag", None, HALF, None)])
    assert f'width="{COLUMN_MM}mm"' in figure_svg(Figure("one", "One", (one,)))
    assert f'width="{PAGE_MM}mm"' in figure_svg(Figure("three", "Three", (one, one, one)))


def test_figures_are_written_as_svg_and_png_with_the_same_bytes(tmp_path: Path) -> None:
    """300 pixels to the inch: 84 mm are 992 pixels."""
    figure = Figure("comparison", "Comparison", (forest("Update", [ForestRow("rag", None, HALF, None)]),))
    for folder in ("one", "other"):
        write_figures([figure], tmp_path / folder)
    for name in ("comparison.svg", "comparison.png"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    picture = (tmp_path / "one" / "comparison.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", picture[16:24])
    assert width == pytest.approx(992, abs=1)
    assert height > 100


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_labels_are_a_gap_apart_and_in_the_order_of_their_places(wanted: list[float]) -> None:
    places = spread(wanted, gap=15, low=0, high=100)
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], index))
    gaps = [places[second] - places[first] for first, second in pairwise(order)]
    assert all(gap >= 15 - 1e-9 for gap in gaps)


def test_a_label_stays_where_there_is_room() -> None:
    assert spread([10.0, 50.0], gap=15, low=0, high=100) == [10.0, 50.0]


def test_long_names_are_cut_to_their_width() -> None:
    cut = shortened("a very long name of a relation", 80)
    assert cut.endswith("…")
    assert text_width(cut) <= 90
    assert shortened("short", 80) == "short"


def test_axes_have_round_ticks_that_lie_on_them() -> None:
    assert ticks(0, 1, most=5) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(-0.03, 0.11, most=5) == [0, 0.05, 0.1]
    assert ticks(3, 3) == [3]
    assert Scale(0, 10, 100, 200)(12) == 200


def test_panels_share_the_lowest_axis_that_holds_all() -> None:
    assert [common_top([share]) for share in (0.02, 0.1, 0.11, 0.6)] == [0.1, 0.1, 0.25, 1.0]
    assert common_top([]) == 1.0


def test_few_answers_have_no_decimal() -> None:
    assert (percent(0.25, n=4), percent(0.254, n=99), percent(0.254, n=100)) == ("25", "25", "25.4")


def test_data_comes_out_as_it_went_in_and_as_the_same_text() -> None:
    data = {"strings": [*HOSTILE, "ü"], "rows": {"run": [0, 1, -1]}}
    assert unpacked(packed(data)) == data
    assert packed(data) == packed(data)
    assert re.fullmatch("[A-Za-z0-9+/=]+", packed(data))


def test_values_are_numbered_once_in_the_order_in_which_they_came() -> None:
    numbered: Numbered[str] = Numbered()
    assert [numbered.number(value) for value in ("b", "a", "b", None)] == [0, 1, 0, NOTHING]
    assert numbered.values == ["b", "a"]
