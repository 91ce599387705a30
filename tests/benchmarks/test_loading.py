"""The benchmark of searches under load and of models going live, on a small service."""

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks import loading
from benchmarks.serving import serving

HERBS = (
    "basil oregano thyme rosemary sage parsley dill mint chives fennel tarragon marjoram coriander lavender lovage "
    "sorrel chervil borage hyssop rue savory verbena nettle yarrow dandelion arnica valerian camomile"
).split()
"""Easy to learn: the right document has the herb in its title, another document twice in its text."""


def test_searches_are_measured_at_rest_and_during_a_load_and_the_trained_model_goes_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "SOFTSEEK_ENCODER", "hashing")
    for name, value in {"PART_SECONDS": 1, "WARM": 1, "BATCH": 10}.items():
        monkeypatch.setattr(loading, name, value)
    documents = [{"id": "d1", "title": None, "text": "copper wire"}, {"id": "d2", "title": None, "text": "tin roof"}]
    with serving(tmp_path) as client:
        figures = loading.measure_under_load(client, ["copper", "tin"], documents)
        found = client.get("/v1/collections/default/documents", params={"limit": 1000}).json()["documents"]
        live = loading.measure_live(client, tmp_path, judged_herbs(client), "herbs")
    assert figures["load"]["searches"] > 0
    assert figures["documents_per_second"] > 0
    assert {one["text"] for one in found} == {"copper wire", "tin roof"}
    assert live["run"] in ("processing", "succeeded")
    assert live["live_ms"] > 0


def judged_herbs(client: httpx.Client) -> list[dict[str, Any]]:
    """Create a collection in which untrained search is wrong; return judgments that correct it."""
    path = "/v1/collections/herbs"
    client.put(path, json={}).raise_for_status()
    right = [{"id": herb, "title": f"{herb} seeds", "text": f"leaf {at}"} for at, herb in enumerate(HERBS)]
    wrong = [{"id": f"{herb}-1", "title": "soil", "text": f"{herb} {herb}"} for herb in HERBS]
    client.post(f"{path}/documents?wait=600", json={"documents": [*right, *wrong]}).raise_for_status()
    return [{"query": herb, "document_id": herb, "rating": 4} for herb in HERBS]
