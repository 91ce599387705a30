"""The garbage collector leaves alone what exists when the service has started."""

import pytest

from tests.service.test_imports import printed_by

STARTED = """
import gc, tempfile
import uvicorn
from service.cli import operating
found = []
uvicorn.Server.run = lambda *given, **named: found.append([gc.isenabled(), gc.get_freeze_count() > 100_000])
with tempfile.TemporaryDirectory() as data:
    operating.serve(data=data, port=0, workers={workers})
print(found)
"""
REFUSED = """
import gc, tempfile
from service.cli import operating
def refuse(*given):
    raise OSError
operating.protect = refuse
try:
    with tempfile.TemporaryDirectory() as data:
        operating.serve(data=data, port=0)
except OSError:
    print([gc.isenabled(), gc.get_freeze_count()])
"""
IN_ORDER = """
import gc
from service.runtime.garbage import collections_paused, leave_out_what_exists
found = []
def note():
    found.append([gc.isenabled(), gc.get_freeze_count() > 0])
try:
    with collections_paused():
        note()
        leave_out_what_exists()
        note()
        raise OSError
except OSError:
    note()
print(found)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_that_has_started_leaves_out_its_libraries(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    assert printed_by(STARTED.format(workers=workers)) == [[True, True]]


def test_collections_pause_until_the_objects_that_exist_are_left_out_and_are_usual_at_the_end() -> None:
    assert printed_by(IN_ORDER) == [[False, False], [True, True], [True, False]]


def test_a_service_that_does_not_start_leaves_the_collector_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    assert printed_by(REFUSED) == [True, 0]
