"""`--heatmap`: the arrays of the heatmaps, and the images that are drawn of them."""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.learning.examples import TEST_FOLDS, fold_of
from service.cli import drawing, heatmaps
from service.cli.heatmaps import Heatmap
from tests.service.test_cli import FOUND, ROOT, Fake, Run, fake, lines_file, run

pytestmark = pytest.mark.usefixtures("forked_training")

__all__ = ["fake", "run"]

WORDS = {
    "text": "red shoe",
    "words": [{"word": "red", "start": 0, "end": 3}, {"word": "shoe", "start": 4, "end": 8}],
    "keys": [
        {"id": "d1", "kind": "title", "start": 0, "end": 3, "share": 1.0, "cosine": 0.5},
        {"id": "d1", "kind": "passage", "start": 0, "end": 9, "share": 1.0, "cosine": 0.25},
    ],
    "cells": [[0.1, -0.2], [0.3, 0.05]],
    "words_left_out": 0,
}
PARTS = {"parts": ["title", "words", "memory"], "documents": [{"id": "d1", "logit": 2.0}], "cells": [[1.5], [0.5], [0]]}
DRAWN = FOUND | {"matrix": {"words_by_keys": WORDS, "parts_by_documents": PARTS}}
ALL = "/v1/collections/default/search"


def png_size(path: Path) -> tuple[int, int]:
    """Return the width and height in pixels of a PNG file, from its header."""
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    return width, height


# --- Arrays ---


def test_the_arrays_equal_the_answer() -> None:
    words, parts = heatmaps.of_search(DRAWN)
    assert (words.rows, words.cells) == (["red", "shoe"], WORDS["cells"])
    assert words.columns == ["1. One  title  cosine 0.50", "1. passage “some text”  cosine 0.25"]
    assert (parts.rows, parts.cells) == (PARTS["parts"], PARTS["cells"])
    assert parts.columns == ["1. One  logit 2.00"]


def test_the_title_counts_words_that_are_left_out() -> None:
    more = DRAWN | {"matrix": DRAWN["matrix"] | {"words_by_keys": WORDS | {"words_left_out": 8}}}
    assert "8 words left out" in heatmaps.of_search(more)[0].title
    assert "left out" not in heatmaps.of_search(DRAWN)[0].title


def test_a_search_by_words_has_one_heatmap_and_a_search_without_hits_none() -> None:
    answer = FOUND | {"matrix": {"parts_by_documents": PARTS}}
    assert [one.rows for one in heatmaps.of_search(answer)] == [PARTS["parts"]]
    nothing = {"parts_by_documents": PARTS | {"documents": [], "cells": [[], [], []]}}
    assert heatmaps.of_search(FOUND | {"hits": [], "matrix": nothing}) == []


def test_labels_are_short_and_on_one_line() -> None:
    assert heatmaps.shortened("a\nb\x1b") == "a b\ufffd"
    assert heatmaps.shortened("x" * 100) == "x" * 27 + "…"


# --- Drawing ---


def test_the_drawn_arrays_and_labels_equal_the_heatmaps() -> None:
    every = heatmaps.of_search(DRAWN)
    figure = drawing.figure_of(every)
    assert len(figure.axes) == len(every) == 2
    for axes, heatmap in zip(figure.axes, every, strict=True):
        (image,) = axes.images
        assert np.array_equal(image.get_array(), np.asarray(heatmap.cells))
        assert axes.get_title(loc="left") == heatmap.title
        assert [label.get_text() for label in axes.get_yticklabels()] == list(heatmap.rows)
        assert [label.get_text() for label in axes.get_xticklabels()] == list(heatmap.columns)
        assert [text.get_text() for text in axes.texts] == [f"{cell:.2f}" for row in heatmap.cells for cell in row]


def test_signed_colours_are_symmetric_around_zero_and_others_begin_there() -> None:
    signed, unsigned = (Heatmap("t", ["r"], ["c", "d"], [[0.1, 0.4]], signed=signed) for signed in (True, False))
    limits = [drawing.figure_of([one]).axes[0].images[0].get_clim() for one in (signed, unsigned)]
    assert limits == [(-0.4, 0.4), (0.0, 0.4)]


def test_numbers_stand_out_from_their_cells() -> None:
    heatmap = Heatmap("t", ["r"], ["c", "d"], [[0.0, 1.0]], signed=False)
    light, dark = drawing.figure_of([heatmap]).axes[0].texts
    assert (light.get_color(), dark.get_color()) == ("black", "white")


def test_a_small_negative_number_has_no_sign() -> None:
    (text,) = drawing.figure_of([Heatmap("t", ["r"], ["c"], [[-0.001]])]).axes[0].texts
    assert text.get_text() == "0.00"


def test_a_dollar_sign_starts_no_formula(tmp_path: Path) -> None:
    heatmap = Heatmap("costs $1", ["$a_{$"], ["$\\frac$"], [[1.0]])
    drawing.write(tmp_path / "a.svg", [heatmap])
    assert (tmp_path / "a.svg").stat().st_size > 1000


def test_a_character_without_a_glyph_gives_no_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    drawing.write(tmp_path / "a.png", [Heatmap("t", ["日本"], ["c"], [[1.0]])])
    garbage = ResourceWarning  # of what another test left open, which may be collected here
    assert not [one for one in recwarn.list if not issubclass(one.category, garbage)]


# --- The command ---


@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")]
)
def test_a_search_writes_an_image_of_the_right_size(
    fake: Fake, run: Run, tmp_path: Path, suffix: str, start: bytes
) -> None:
    fake.on("POST", ALL, DRAWN)
    path = tmp_path / f"out{suffix}"
    ended = run("search", "red shoe", "--heatmap", path, "--url", fake.url)
    assert (ended.code, "One" in ended.out) == (0, True)
    assert f"heatmaps: {path}" in ended.err
    assert fake.sent(ALL)[0]["explain"] == "matrix"
    assert path.read_bytes().startswith(start)
    assert path.stat().st_size > 5000
    if suffix == ".png":
        width, height = drawing.size_of(heatmaps.of_search(DRAWN))
        assert png_size(path) == pytest.approx((drawing.DPI * width, drawing.DPI * height), abs=1)


def test_the_size_grows_with_rows_and_columns() -> None:
    small, wide = (Heatmap("t", ["r"] * 3, ["c"] * count, [[1.0] * count] * 3) for count in (1, 40))
    assert drawing.size_of([wide])[0] > 2 * drawing.size_of([small])[0]
    assert drawing.size_of([small, small])[1] == 2 * drawing.size_of([small])[1]
    assert drawing.size_of([small, small], beside=True)[0] == 2 * drawing.size_of([small])[0]


def test_json_on_stdout_stays_the_answer_alone(fake: Fake, run: Run, tmp_path: Path) -> None:
    fake.on("POST", ALL, DRAWN)
    ended = run("search", "red shoe", "--json", "--heatmap", tmp_path / "a.png", "--url", fake.url)
    assert json.loads(ended.out) == DRAWN


@pytest.mark.parametrize("name", ["out.jpg", "out", "out.png.txt", "missing/out.png"])
def test_a_file_that_cannot_be_an_image_ends_with_2_before_any_request(
    fake: Fake, run: Run, tmp_path: Path, name: str
) -> None:
    ended = run("search", "x", "--heatmap", tmp_path / name, "--url", fake.url)
    assert (ended.code, ended.out, fake.requests) == (2, "", [])
    assert "--heatmap" in ended.err


def test_without_hits_no_image_is_written_and_the_command_ends_with_1(fake: Fake, run: Run, tmp_path: Path) -> None:
    nothing = {"parts_by_documents": PARTS | {"documents": [], "cells": [[], [], []]}}
    fake.on("POST", ALL, FOUND | {"hits": [], "matrix": nothing})
    ended = run("search", "x", "--heatmap", tmp_path / "a.png", "--url", fake.url)
    assert (ended.code, (tmp_path / "a.png").exists()) == (1, False)
    assert "no heatmap" in ended.err


def test_heatmaps_of_a_data_directory(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    trees: list[dict[str, Any]] = [
        {"id": one, "title": one.title(), "text": f"the {one} is a tree"} for one in ("oak", "elm")
    ]
    (tmp_path / "trees.ndjson").write_text("".join(json.dumps(one) + "\n" for one in trees))
    option = ("--data", tmp_path / "data")
    assert run("ingest", tmp_path / "trees.ndjson", *option).code == 0
    ended = run("search", "an old oak", "--json", "--heatmap", tmp_path / "a.png", *option)
    assert ended.code == 0, ended.err
    every = heatmaps.of_search(json.loads(ended.out))
    assert every[0].rows == ["an", "old", "oak"]
    assert png_size(tmp_path / "a.png") == tuple(round(drawing.DPI * inches) for inches in drawing.size_of(every))


# --- Training ---


RUNS = "/v1/collections/default/training-runs"
ENDED = {"id": "r1", "status": "succeeded", "model_version": 5, "report": {}, "decision": {}}
OAK = {"q": "oak", "before": [0.5, 0.25, *[0.0] * 8, 0.25], "after": [1.0, *[0.0] * 10]}
PINE = {"q": "pine", "before": [0.1] * 11, "after": [0.05] * 11}


def test_the_weights_of_held_out_queries_are_arrays_by_rank_with_no_answer_last() -> None:
    one, other = heatmaps.of_run({"before": 2, "after": 5, "queries": [OAK, PINE]})
    assert [each.title for each in (one, other)] == [
        "before: model 2, held-out queries",
        "after: model 5, held-out queries",
    ]
    assert (one.rows, one.columns[0], one.columns[-1]) == (["oak", "pine"], "rank 1", "no answer")
    assert (one.cells, other.cells) == ([OAK["before"], PINE["before"]], [OAK["after"], PINE["after"]])
    figure = drawing.figure_of([one, other], beside=True)
    assert [axes.images[0].get_clim() for axes in figure.axes] == [(0, 1.0), (0, 1.0)]
    for axes, heatmap in zip(figure.axes, (one, other), strict=True):
        assert np.array_equal(axes.images[0].get_array(), np.asarray(heatmap.cells))


def test_training_draws_the_held_out_queries_of_the_run_and_searches_nothing(
    fake: Fake, run: Run, tmp_path: Path
) -> None:
    fake.on("POST", RUNS, (202, {"id": "r1"}))
    fake.on("GET", f"{RUNS}/r1", ENDED)
    fake.on("GET", f"{RUNS}/r1/attention", {"before": 2, "after": 5, "queries": [OAK, PINE]})
    ended = run("train", "--heatmap", tmp_path / "a.png", "--url", fake.url)
    assert ended.code == 0, ended.err
    assert "heatmaps:" in ended.err
    assert {path for _, path, _ in fake.requests} == {RUNS, f"{RUNS}/r1", f"{RUNS}/r1/attention"}
    drawn = [Heatmap("t", ["oak", "pine"], ["c"] * 11, [])] * 2
    width, height = drawing.size_of(drawn, beside=True)
    assert png_size(tmp_path / "a.png") == (round(drawing.DPI * width), round(drawing.DPI * height))


def test_a_run_without_held_out_queries_is_shown_and_the_command_says_that_nothing_is_drawn(
    fake: Fake, run: Run, tmp_path: Path
) -> None:
    fake.on("POST", RUNS, (202, {"id": "r1"}))
    fake.on("GET", f"{RUNS}/r1", ENDED)
    fake.on("GET", f"{RUNS}/r1/attention", {"before": 0, "after": 5, "queries": []})
    ended = run("train", "--heatmap", tmp_path / "a.png", "--url", fake.url)
    assert (ended.code, (tmp_path / "a.png").exists()) == (1, False)
    assert "model 5" in ended.out
    assert "no held-out query" in ended.err


@pytest.mark.parametrize("more", [["--heatmap", "a.gif"], ["--heatmap", "a.png", "--no-wait"]])
def test_wrong_use_in_training_ends_with_2_before_any_request(fake: Fake, run: Run, more: list[str]) -> None:
    ended = run("train", *more, "--url", fake.url)
    assert (ended.code, fake.requests) == (2, [])
    assert "--heatmap" in ended.err


def test_training_without_a_heatmap_asks_for_no_queries(fake: Fake, run: Run) -> None:
    fake.on("POST", RUNS, (202, {"id": "r1"}))
    fake.on("GET", f"{RUNS}/r1", ENDED)
    assert run("train", "--url", fake.url).code == 0
    assert {path for _, path, _ in fake.requests} == {RUNS, f"{RUNS}/r1"}


def test_the_attention_of_a_real_run_is_drawn(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    option = ("--data", tmp_path / "data")
    trees = [{"id": f"t{n}", "title": f"Tree {n}", "text": f"tree number {n} is tall"} for n in range(24)]
    judged = [{"query": f"which tree has number {n}", "document_id": f"t{n}", "rating": 3} for n in range(24)]
    assert run("ingest", lines_file(tmp_path / "trees.ndjson", *trees), *option).code == 0
    assert run("judgments", "import", lines_file(tmp_path / "judged.jsonl", *judged), *option).code == 0
    ended = run("train", "--budget", 1, "--promote", "never", "--heatmap", tmp_path / "a.svg", *option)
    assert ended.code == 0, ended.err
    drawn = (tmp_path / "a.svg").read_text()
    assert "<!-- before: model 0, held-out queries -->" in drawn
    assert "<!-- after: model 1, held-out queries -->" in drawn
    shown = set(re.findall(r"<!-- (which tree has number \d+) -->", drawn))
    held_out = {one["query"] for one in judged if fold_of(one["query"]) < TEST_FOLDS}
    assert shown == held_out != set()


def test_a_search_without_a_heatmap_imports_no_matplotlib() -> None:
    code = (
        "import sys, contextlib\nfrom service.cli import main\n"
        "with contextlib.suppress(SystemExit):\n    main(['search', 'x', '--url', 'http://127.0.0.1:9'])\n"
        "print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
