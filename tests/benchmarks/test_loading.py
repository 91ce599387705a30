"""The benchmark of searches under load and of models going live, on a service that is small."""

import os
from pathlib import Path

import pytest

from benchmarks import loading
from benchmarks.serving import serving


def test_searches_are_measured_at_rest_and_while_documents_are_loaded_and_a_trained_model_goes_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "SOFTSEEK_ENCODER", "hashing")
    for name, value in {"PART_SECONDS": 1, "WARM": 1, "BATCH": 10}.items():
        monkeypatch.setattr(loading, name, value)
    documents = [{"id": "d1", "title": None, "text": "copper wire"}, {"id": "d2", "title": None, "text": "tin roof"}]
    with serving(tmp_path) as client:
        figures = loading.measure_under_load(client, ["copper", "tin"], documents)
        found = client.get("/v1/collections/default/documents", params={"limit": 1000}).json()["documents"]
        live = loading.measure_live(client, tmp_path)
    assert figures["load"]["searches"] > 0
    assert figures["documents_per_second"] > 0
    assert {one["text"] for one in found} == {"copper wire", "tin roof"}
    assert live["run"] in ("processing", "succeeded")
    assert live["live_ms"] > 0
