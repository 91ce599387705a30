"""Starts peers: their options, their processes, their rankings and their cost."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measurements import Found
from benchmarks.peers import PEERS, Task
from benchmarks.peers.material import Material
from index.records import Ints


def run_peers(
    material: Material, peers: Sequence[tuple[str, int | None]], task: Task
) -> Iterator[tuple[str, list[Found]]]:
    """Yield each peer with the rankings of its systems. The cost of a learning peer includes the shared seconds."""
    with tempfile.TemporaryDirectory() as folder:
        material.save(Path(folder))
        for peer, seed in peers:
            found, cost = run_peer(peer, Path(folder), replace(task, seed=seed or 0))
            facts = cost.pop("facts")
            if PEERS[peer].learns:
                for name in ("learn_seconds", "live_seconds"):
                    cost[name] += material.shared_seconds
            yield peer, [Found(one, seed, material.run(found[one]), cost, facts) for one in PEERS[peer].systems]


def run_peer(peer: str, material: Path, task: Task) -> tuple[dict[str, Ints], dict[str, Any]]:
    """Run a peer in a separate process; return system -> doc indices (S, depth), and its cost with facts."""
    threads = str(PEERS[peer].threads)
    environment = os.environ | {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false",
    }
    with tempfile.TemporaryDirectory() as out:
        specification = {"peer": peer, "material": str(material), "out": out, "task": asdict(task)}
        command = [sys.executable, "-m", "benchmarks.peers.child", json.dumps(specification)]
        subprocess.run(command, env=environment, check=True)
        cost = json.loads((Path(out) / "cost.json").read_bytes())
        found = {name: np.load(Path(out) / f"{name}.npy", allow_pickle=False) for name in PEERS[peer].systems}
    return found, cost


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options by which peers are chosen."""
    parser.add_argument("--peers", action="store_true", help="also measure other ways to learn")
    parser.add_argument("--only-peers", default="", help=f"only these peers, comma-separated: {', '.join(PEERS)}")
    parser.add_argument("--skip-peers", default="", help="without these peers, comma-separated")
    parser.add_argument("--fine-tuning-pairs", type=int, default=1000, help="maximum number of pairs per epoch; 0: all")


def chosen_peers(options: argparse.Namespace) -> list[str]:
    """Return the peers that the options choose; ends the program at an unknown name."""
    only, skipped = names_in(options.only_peers), names_in(options.skip_peers)
    unknown = {*only, *skipped} - PEERS.keys()
    if unknown:
        raise SystemExit(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    return [peer for peer in (only or (PEERS if options.peers else [])) if peer not in skipped]


def names_in(listed: str) -> list[str]:
    """Return the names in a comma-separated list."""
    return [name for name in listed.split(",") if name]
