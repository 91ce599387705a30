"""Every benchmark writes its figures in the same shape, with the conditions of the run."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.measurements import Measurements
from benchmarks.result_file import commit, load_result, publish
from benchmarks.tables import block_text


def test_a_published_result_is_the_last_line_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["learning.py", "--data", "/some/where", "--seeds", "0,1"])
    publish({"sets": {"animals": 1}}, [0, 1], tmp_path / "results" / "learning.json")
    result = load_result(tmp_path / "results" / "learning.json")
    assert json.loads(capsys.readouterr().out) == result
    assert result["figures"] == {"sets": {"animals": 1}}
    assert result["measured"]["commit"] == commit()
    assert result["measured"]["seeds"] == [0, 1]
    assert "--data ../some/where --seeds 0,1" in result["measured"]["command"]


def test_a_result_names_no_place_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = ["--data", "/one/two/shared/data", "--resume", "../../two/out/one.resume"]
    monkeypatch.setattr(sys, "argv", ["learning.py", *outside, "--out", str(Path.cwd() / "a.json")])
    publish({"settings": {"encoder": "/models/large", "keys": ["/a/b", "title"]}}, [0], tmp_path / "one.json")
    result = load_result(tmp_path / "one.json")
    assert result["figures"]["settings"] == {"encoder": "large", "keys": ["b", "title"]}
    assert result["measured"]["command"].endswith("--data ../shared/data --resume ../out/one.resume --out a.json")


def test_measurements_of_earlier_commits_are_named(tmp_path: Path) -> None:
    publish({}, [0], tmp_path / "one.json", ["a" * 40, commit()])
    note = load_result(tmp_path / "one.json")["measured"]["note"]
    assert "aaaaaaaaa" in note
    assert commit()[:9] not in note


def test_commits_of_measurements_are_those_of_their_entries() -> None:
    results = Measurements(None)
    results.open_set("animals", 1, 1, ["q"])
    for seed, name in ((0, "b"), (1, "a"), (2, "b")):
        results.put("animals", "bm25", seed, {"nDCG@10": {"q": 1.0}}, settings={}, commit=name, cost={}, facts={})
    assert results.commits() == ["a", "b"]


def test_tables_read_the_results_that_benchmarks_write(tmp_path: Path) -> None:
    figures = {"runtimes": {"a": {"documents/s": 1.0, "query p50, ms": 2.0, "query p99, ms": 3.0}}}
    figures["runtimes"]["a"] |= {"query p50 beside documents, ms": 4.0, "query p99 beside documents, ms": 5.0}
    publish(figures, [], tmp_path / "encoding.json")
    assert "| a | 1.0 | 2.00 | 3.00 | 4.00, 5.00 |" in block_text("encoding.runtimes", tmp_path)
    assert commit()[:9] in block_text("encoding.measured", tmp_path)
