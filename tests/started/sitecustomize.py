"""Lets the services that tests start keep their content in PostgreSQL, in a run of all tests on it."""

import os

if "@" in os.environ.get("TEST_POSTGRES", ""):
    from tests.postgres_servers import serve_all_tests

    serve_all_tests()
