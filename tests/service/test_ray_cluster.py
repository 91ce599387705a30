"""Partitions on a real Ray cluster, started and killed from the command line."""

from typing import Any

import pytest

from tests.service.namespaces import seen_in_namespace


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What the program sees. Ray listens on all addresses of a machine, so it has a namespace of its own."""
    pytest.importorskip("ray")
    return seen_in_namespace("tests.service.ray_check")


def test_a_coordinator_of_a_ray_cluster_answers_as_the_writer(seen: dict[str, Any]) -> None:
    assert seen["equal"]
    assert seen["refused"] == 421


def test_a_search_with_the_watermark_of_a_write_sees_it_in_the_cluster(seen: dict[str, Any]) -> None:
    assert seen["put"]


def test_a_killed_partition_gives_no_wrong_answer_and_comes_back(seen: dict[str, Any]) -> None:
    counted = dict(seen["after_kill"])
    assert seen["is_back"]
    assert counted.pop("whole") >= 10
    assert counted.pop("partial", 0) > 0
    assert not counted, "answers that are neither whole nor say what they lack"


def test_the_cluster_encodes_many_documents_once_though_an_encoder_is_killed(seen: dict[str, Any]) -> None:
    assert seen["encoders_killed"] == 1
    assert seen["encoded"] == "succeeded"
    assert seen["counts"] == [seen["sent"], 0]


def test_the_cluster_fits_a_training_run(seen: dict[str, Any]) -> None:
    assert seen["trained"] == ["succeeded", None, 1]
    assert seen["phases"][0] == "exported"
    assert "evaluate" in seen["phases"]


def test_the_cluster_and_the_coordinator_end_in_order(seen: dict[str, Any]) -> None:
    assert seen["coordinator"] == 0
    assert seen["deployment"] == 143
    assert not seen["log"]
