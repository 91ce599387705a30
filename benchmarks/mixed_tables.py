"""The tables of the benchmark of mixed load."""

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import NONE, at, number, significant, table


def mixed(figures: Mapping[str, Any]) -> str:
    """Return a row per figure of the load, with its goal."""
    stop = figures["stop"]
    ratio = at(figures, "ratio", "p99")
    rows = [
        ("capacity, good answers/s to the mix in a closed loop", number(figures["capacity"], 1), ""),
        ("arrivals/s of the mix", number(figures["rate"], 1), ""),
        ("minutes", significant(figures["seconds"] / 60), ""),
        ("answers with another status than expected", number(sum(figures["unexpected"].values())), "0"),
        ("of them refusals, with 429 or 503", number(figures["refused"]), "0"),
        ("searches of them that came while training", number(figures["unexpected_while_training"]), "0"),
        ("requests that were not sent, because 900 waited", number(figures["late"]), "0"),
        ("rejected events whose search was lost", number(figures["lost_events"]), "0"),
        ("search at rest: p50, p95, p99, ms", _percentiles(figures, "rest"), ""),
        ("search while training: p50, p95, p99, ms", _percentiles(figures, "training"), ""),
        ("ratio of the p99", number(ratio, 2), "at most 2"),
        ("share of the time with a training run", number(figures["training_share"], 2), "about .5"),
        ("training runs", _counts(figures["runs"]), "all succeed; the end cuts the last"),
        ("models promoted", number(figures["promoted"]), ""),
        ("/livez: p99; slowest, ms", _two(figures["live_p99_ms"], figures["live_max_ms"]), ""),
        (f"memory after {figures['settle_minutes']:.3g} minutes, MiB/hour", _slope(figures), "flat"),
        ("remembered events, as they count, MiB/hour", number(figures["remembered_mib_per_hour"], 1), ""),
        ("highest memory of the service, MiB", number(figures["rss_max_mib"]), ""),
        ("highest memory with the training process, MiB", number(figures["rss_with_training_max_mib"]), ""),
        ("requests open at SIGTERM; without an answer", _two(stop["in_flight"], stop["unanswered"]), "-; 0"),
        ("exit code after SIGTERM", str(stop["exit_code"]), "0"),
        ("seconds from SIGTERM to the end", significant(stop["seconds"]), f"at most {stop['bound_seconds']:.0f}"),
    ]
    return table(("", f"{number(figures['documents'])} documents, {number(figures['keys'])} keys", "goal"), rows)


def answers(figures: Mapping[str, Any]) -> str:
    """Return a row per kind of request, with the number of each status; and the warnings and errors of the log."""
    rows = [(kind, _counts(counts), *_times(figures["times"][kind])) for kind, counts in figures["answers"].items()]
    rows.append(("events rejected", _counts(figures["rejections"]), NONE, NONE, NONE))
    rows.append(("open at SIGTERM", _counts(figures["stop"]["answers"]), NONE, NONE, NONE))
    rows.append(("warnings and errors of the log", _counts(figures["log"]), NONE, NONE, NONE))
    return table(("requests", "answers", "p50, ms", "p99, ms", "slowest, ms"), rows)


def _times(times: Mapping[str, float]) -> list[str]:
    return [significant(times[name]) for name in ("p50_ms", "p99_ms", "max_ms")]


def _percentiles(figures: Mapping[str, Any], part: str) -> str:
    return ", ".join(significant(at(figures, part, f"p{share}_ms")) for share in (50, 95, 99))


def _two(first: float | None, second: float | None) -> str:
    return f"{significant(first)}; {significant(second)}"


def _slope(figures: Mapping[str, Any]) -> str:
    slope = figures["rss_slope_mib_per_hour"]
    return "-" if slope is None else f"{slope:+,.1f}"


def _counts(counts: Mapping[str, int]) -> str:
    """Return counts by name: `200: 1,204, 503 overloaded: 3`."""
    return ", ".join(f"{name}: {number(count)}" for name, count in counts.items()) or "none"
