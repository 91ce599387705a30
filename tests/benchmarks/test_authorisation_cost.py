"""The benchmark of authorisation measures every part with real routes and keys."""

import pytest

from benchmarks import authorisation


def test_every_part_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorisation, "REPEATS", 1)
    monkeypatch.setattr(authorisation, "CALLS", 1)
    found = authorisation.measured()
    assert list(found) == ["the route of a search", "the last route", "the head", "the key", "all of a search"]


def test_the_measured_key_is_valid_and_the_request_is_admitted() -> None:
    request = authorisation.request("POST", "/v1/collections/default/search", b"sk_x_y")
    assert authorisation.Head(request).token == b"sk_x_y"
