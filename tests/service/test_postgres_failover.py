"""A PostgreSQL server fails, and a synchronous standby takes its place."""

import threading
import time
from pathlib import Path

from benchmarks.postgres import running_server, running_standby
from tests.service.client import DEADLINE_SECONDS, CollectionClient, opened, problem


def test_no_acknowledged_document_is_lost_and_writes_go_on_at_the_standby(tmp_path: Path) -> None:
    with running_server() as primary, running_standby(primary) as standby:
        primary.database("shop")
        both = f"postgresql+psycopg://softseek@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/shop"
        with opened(tmp_path / "data", database=f"{both}?target_session_attrs=read-write") as client:
            shop = CollectionClient(client)
            acknowledged: list[str] = []
            stopping = threading.Event()

            def write() -> None:
                for number in range(100_000):
                    name = f"lamp-{number}"
                    if client.put(f"{shop.path}/documents/{name}", json={"text": f"lamp {number}"}).is_success:
                        acknowledged.append(name)
                    if stopping.is_set():
                        return

            writer = threading.Thread(target=write)
            writer.start()
            wait_for(acknowledged, 20)
            primary.kill()
            standby.execute("SELECT pg_promote()")
            wait_for(acknowledged, len(acknowledged) + 20)
            stopping.set()
            writer.join()
            found = {name for name in acknowledged if client.get(f"{shop.path}/documents/{name}").status_code == 200}
            assert found == set(acknowledged)
            assert shop.ids("lamp 7")[0] == "lamp-7"

            standby.kill()  # the first server comes back as it was: nothing may be written to it
            primary.start()
            primary.execute("ALTER SYSTEM RESET synchronous_standby_names")
            primary.execute("SELECT pg_reload_conf()")
            problem(client.put(f"{shop.path}/documents/late", json={"text": "late"}), 503, "database_unreachable")


def wait_for(names: list[str], count: int) -> None:
    until = time.monotonic() + DEADLINE_SECONDS
    while len(names) < count:
        assert time.monotonic() < until
        time.sleep(0.01)
