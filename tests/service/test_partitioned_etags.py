"""A coordinator answers with the bytes of the service with all documents, so that a cache may keep either answer."""

import pytest
from fastapi.testclient import TestClient

from tests.service.test_partitions import Partitioned, shared_address, shared_two, shared_writer, two

__all__ = ["shared_address", "shared_two", "shared_writer", "two"]


@pytest.mark.parametrize(
    "search",
    [
        "q=old oak&limit=30&facets=colour,tags&explain=true",
        "q=old&sort=n:asc&limit=4&offset=3&snippet=true",
        "q=yew&fields=title,n",
        "q=yew&fields=metadata&mode=words",
        "q=*&distinct=colour",
    ],
)
def test_an_equal_answer_has_the_etag_of_the_service_with_all_documents(
    shared_writer: TestClient, two: Partitioned, search: str
) -> None:
    path = f"/v1/collections/wood/search?{search}"
    etag = shared_writer.get(path).headers["ETag"]
    assert two[0].get(path).headers["ETag"] == etag
    assert two[0].get(path, headers={"If-None-Match": etag}).status_code == 304
