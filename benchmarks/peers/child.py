"""The process of a peer: it reads the material, learns, publishes, ranks, and writes rankings and cost.

    python -m benchmarks.peers.child '{"peer": ..., "material": FOLDER, "out": FOLDER, "task": {...}}'

A separate process has a peak memory of its own.
"""

import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.peers import PEERS, Peer, Task
from benchmarks.peers.material import Material


def main(specification: str) -> None:
    """Run one peer."""
    wanted = json.loads(specification)
    material, out = Material.load(Path(wanted["material"])), Path(wanted["out"])
    module, _, name = PEERS[wanted["peer"]].where.partition(":")
    kind: type[Peer] = getattr(importlib.import_module(f"benchmarks.peers.{module}"), name)
    peer = kind(material, Task(**wanted["task"]))
    started, spent = time.perf_counter(), time.process_time()
    facts = peer.learn()
    learned = time.perf_counter()
    peer.publish()
    live, spent = time.perf_counter(), time.process_time() - spent
    for system, doc_indices in peer.rank().items():
        np.save(out / f"{system}.npy", doc_indices.astype(np.int32), allow_pickle=False)
    cost = {"learn_seconds": learned - started, "live_seconds": live - started, "cpu_seconds": spent}
    (out / "cost.json").write_text(json.dumps(cost | {"peak_mib": peak_mib(), "facts": facts}), encoding="utf-8")


def peak_mib() -> int:
    """Return the peak resident memory of this process in MiB (VmHWM)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    kibibytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kibibytes) // 1024


if __name__ == "__main__":
    main(sys.argv[1])
