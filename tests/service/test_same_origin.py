"""A service without keys does nothing for the pages of other sites but answer what they read without a trace."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.service.client import DEFAULT, opened, problem

PAGE = "https://shop.example"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("bare") / "data") as client:
        yield client


@pytest.mark.parametrize(
    "foreign", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": PAGE}]
)
def test_a_page_of_another_site_without_keys_neither_logs_searches_nor_exports(
    bare: TestClient, foreign: dict[str, str]
) -> None:
    url = f"{DEFAULT}/search?q=known"
    for logged in ("&log=true", "&log=1", "&log=TRUE"):
        problem(bare.get(url + logged, headers=foreign), 403, "cross_origin")
        assert bare.get(url + logged, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    problem(bare.get(f"{url}&log=false&log=true", headers=foreign), 403, "cross_origin")
    problem(bare.get("/v1/export", headers=foreign), 403, "cross_origin")
    for read in (url, f"{url}&log=false", f"{url}&log=0", DEFAULT):
        assert bare.get(read, headers=foreign).status_code == 200
    assert bare.get("/v1/export", headers={"Sec-Fetch-Site": "none"}).status_code == 200
