"""Writes the tables of README.md and docs from the results in benchmarks/results.

    python -m benchmarks.tables
    python -m benchmarks.tables --check

A table stands between two comments. Its name is the name of the result file, a dot, and a name in TABLES:

    <!-- table: learning.peers -->
    <!-- end -->

Every result also has `NAME.measured`, which gives commit, date, command, note and remarks, and `NAME.note`, which gives
commit, date and note. Without a stored result a block says so. `--check` writes nothing, and fails if a page or a plot
differs from the results. No network and no test sets are needed.
"""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import cluster_tables as cluster
from benchmarks import context_tables as context
from benchmarks import engines_tables as engines
from benchmarks import exploration_tables as exploration
from benchmarks import mixed_tables as mixed
from benchmarks import overload_tables as overload
from benchmarks import partitions_tables as partitions
from benchmarks import quality_tables as quality
from benchmarks import recommend_tables as recommend
from benchmarks import repeated_tables as repeated
from benchmarks import restart_tables as restart
from benchmarks import scale_tables as scale
from benchmarks import searchers_tables as searchers
from benchmarks import snapshot_tables as snapshots
from benchmarks import speed_tables as speed
from benchmarks import workers_tables as workers
from benchmarks.result_file import RESULTS, load_result

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
PROVENANCE = ("measured", "note")
CALCULATED = ("scale",)
"""Results that were calculated and not measured."""
Renderer = Callable[[Mapping[str, Any]], str]

TABLES: dict[str, Renderer] = {
    "learning.readme": quality.learning_readme,
    "learning.gain": quality.learning_gain,
    "learning.peers": quality.learning_peers,
    "larger_encoder.systems": quality.learning_peers,
    "learning.costs": quality.learning_costs,
    "ablations.served": quality.variants("served"),
    "ablations.trained": quality.variants("trained"),
    "forms.served": quality.variants("served"),
    "forms.trained": quality.variants("trained"),
    "curves.points": quality.curves,
    "clicks.systems": quality.clicks,
    "examination.errors": quality.examination,
    "gate.rows": quality.gate,
    "repeats.systems": quality.repeats,
    "fields.systems": quality.repeats,
    "exploration.coverage": exploration.coverage,
    "explored_learning.learning": exploration.learning,
    "null.measures": quality.null,
    "null.curves": quality.null_curves,
    "day_one.systems": quality.day_one,
    "prediction.measures": quality.prediction,
    "known_titles.systems": quality.known_titles,
    "answers.systems": quality.answers,
    "recommend.systems": recommend.systems,
    "recommend.gaps": recommend.gaps,
    "recommend.choices": recommend.choices,
    "recommend.dislikes": recommend.dislikes,
    "session_context.logs": context.logs,
    "spelling.engines": quality.spelling,
    "letters.engines": quality.letters,
    "languages.systems": quality.languages,
    "languages.kinds": quality.languages_kinds,
    "serving.ingest": speed.serving_ingest,
    "serving.search": speed.serving_search,
    "serving.load": speed.serving_load,
    "microseconds.parts": speed.microseconds,
    "overload.loads": overload.loads,
    "overload_apart.loads": overload.loads,
    "mixed.figures": mixed.mixed,
    "mixed.answers": mixed.answers,
    "engines.rates": engines.rates,
    "engines.moves": engines.moves,
    "engines.failover": engines.failover,
    "searchers.rates": searchers.rates,
    "searchers.delays": searchers.delays,
    "searchers.kills": searchers.kills,
    "cluster.encoding": cluster.encoding,
    "cluster.training": cluster.training,
    "cluster.starts": cluster.starts,
    "cluster.scaling": cluster.scaling,
    "cluster.keys": cluster.keys,
    "partitions.split": partitions.split,
    "partitions.rates": partitions.rates,
    "partitions.delays": partitions.delays,
    "partitions.kills": partitions.kills,
    "restart.starts": restart.starts,
    "scale.constants": scale.constants,
    "scale.sizes": scale.sizes,
    "scale.limits": scale.limits,
    "scale.slower": scale.layouts("slower"),
    "scale.slower_costs": scale.costs("slower"),
    "scale.faster": scale.layouts("faster"),
    "scale.faster_costs": scale.costs("faster"),
    "repeated_searches.loads": repeated.loads,
    "workers.rates": workers.rates,
    "workers_of_many.rates": workers.rates,
    "cores.rates": workers.rates,
    "cores_of_one_thread.rates": workers.rates,
    "cores_default.rates": workers.rates,
    "servers.readme": speed.servers_readme,
    "servers.systems": speed.servers,
    "servers.goals": speed.servers_goals,
    "servers.encoders": speed.servers_encoders,
    "long_texts.systems": speed.servers,
    "long_texts.goals": speed.servers_goals,
    "growth.sizes": speed.growth,
    "memory_growth.sizes": speed.memory_growth,
    "scans.ways": speed.scans,
    "index_choice.ways": speed.scans,
    "encoding.runtimes": speed.encoding,
    "precisions.pairs": speed.precisions,
    "snapshots.times": snapshots.times,
    "snapshots.kills": snapshots.kills,
}
PLOTS: dict[str, tuple[str, Renderer]] = {"docs/growth.svg": ("growth", speed.growth_plot)}
"""File -> result and renderer."""


def main() -> None:
    """Write the tables and plots, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page differs from the results")
    options = parser.parse_args()
    changed = {path: text for path, text in generated() if not path.is_file() or path.read_text("utf-8") != text}
    for path, text in changed.items():
        print(f"{path.relative_to(ROOT)} {'differs from the results' if options.check else 'written'}")
        if not options.check:
            path.write_text(text, encoding="utf-8")
    if options.check and changed:
        raise SystemExit("run python -m benchmarks.tables")


def generated(root: Path = ROOT, results: Path = RESULTS) -> Iterator[tuple[Path, str]]:
    """Yield every page and plot with the text that the results give."""
    for path in pages(root):
        yield path, with_tables(path.read_text(encoding="utf-8"), results)
    for name, (result, renderer) in PLOTS.items():
        if (results / f"{result}.json").is_file():
            yield root / name, renderer(load_result(results / f"{result}.json")["figures"])


def pages(root: Path = ROOT) -> list[Path]:
    """Return README.md and the pages under docs."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def with_tables(text: str, results: Path = RESULTS) -> str:
    """Return a page with its blocks filled from the results. Raises KeyError at an unknown table."""
    return BLOCK.sub(lambda block: f"{block[1]}{block_text(block[2], results)}\n{block[4]}", text)


def block_text(name: str, results: Path = RESULTS) -> str:
    """Return the content of a block. Raises KeyError if no such table is known."""
    stem, _, part = name.partition(".")
    if part not in PROVENANCE:
        renderer = TABLES[name]
    elif stem not in {known.partition(".")[0] for known in TABLES}:
        raise KeyError(name)
    path = results / f"{stem}.json"
    if not path.is_file():
        return "No result is stored yet."
    result = load_result(path)
    if part not in PROVENANCE:
        return renderer(result["figures"])
    text = conditions(result["measured"], result["remarks"]) if part == "measured" else note(result["measured"])
    return text.replace("Measured", "Calculated", 1) if stem in CALCULATED else text


def note(measured: Mapping[str, Any]) -> str:
    """Return commit, date and note of a result."""
    return f"Measured on {measured['date']} at commit {measured['commit'][:9]}. {measured['note']}".strip()


def conditions(measured: Mapping[str, Any], remarks: Sequence[str]) -> str:
    """Return how a result was measured, its note, and its remarks as a list."""
    number = "seed" if len(measured["seeds"]) == 1 else "seeds"
    seeds = f", {number} {', '.join(map(str, measured['seeds']))}" if measured["seeds"] else ""
    cores = f"{measured['cores']} cores" if measured["cores"] else "an unknown number of cores"
    first = (
        f"Measured on {measured['date']} at commit {measured['commit'][:9]}{seeds}, {cores}, {measured['processor']}:"
    )
    lines = [f"{first} `{measured['command']}`.", *filter(None, [measured["note"]])]
    return "\n".join([*lines, *([""] if remarks else []), *(f"- {one}" for one in remarks)])


if __name__ == "__main__":
    main()
