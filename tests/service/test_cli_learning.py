"""The commands that show and feed learning: `training-runs` against a fake server, `judge` on a data directory."""

from tests.service.test_cli import Fake, Run, fake, run

__all__ = ["fake", "run"]


def test_training_runs_are_listed_with_who_started_them_and_what_is_missing(fake: Fake, run: Run) -> None:
    trigger = {"new_queries": 63, "hours_since_last_run": 24.1}
    scheduled = {"id": "r2", "created_at": "t2", "started_by": "schedule", "trigger": trigger, "status": "succeeded"}
    asked = {"id": "r1", "created_at": "t1", "started_by": "request", "trigger": None, "status": "failed"}
    more = {"model_version": 7, "decision": {"promoted": True}}, {"model_version": None, "decision": {}}
    schedule = {"every_hours": 24.0, "min_new_queries": 50, "new_queries": 37, "next_at": None, "missing": "Too few."}
    listed = {"training_runs": [scheduled | more[0], asked | more[1]], "schedule": schedule}
    fake.on("GET", "/v1/collections/default/training-runs", listed)
    lines = run("training-runs", "--url", fake.url).out.splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["r2", "t2", "schedule,", "63", "new", "queries", "succeeded", "7", "yes"],
        ["r1", "t1", "request", "failed", "-", "no"],
    ]
    assert lines[3] == "every 24 hours from 50 new queries on: 37 new queries. Too few."
