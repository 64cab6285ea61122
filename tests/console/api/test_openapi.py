"""The API's document: what is committed is what is served, and it hangs together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runnerq.console.actions.fleet import LimitRequest, ScheduleRequest
from runnerq.console.actions.runs import StartRequest
from runnerq.console.api import shapes
from runnerq.console.api.openapi import api_document, as_text
from runnerq.console.api.table import OPERATIONS
from runnerq.console.models.filters import RunQuery
from tests.console.browsing import Browser

KEPT = Path(__file__).parents[3] / "docs" / "reference" / "openapi.json"


def test_the_document_is_as_committed() -> None:
    told = as_text(api_document())
    assert told == KEPT.read_text(encoding="utf-8"), "the API is another one now: run `python tools/openapi.py`"


async def test_the_document_is_served_with_a_server_relative_to_it(api: Browser) -> None:
    answer = await api.get("/openapi.json")

    assert answer.text == as_text(api_document())
    assert answer.json()["openapi"] == "3.1.0"
    assert answer.url.join(answer.json()["servers"][0]["url"]).path == "/api/v1"


def test_every_reference_leads_somewhere_and_everything_is_referred_to() -> None:
    document = api_document()
    references = set(_values(document, "$ref"))
    defined = {
        f"#/components/{kind}/{name}" for kind in ("schemas", "responses") for name in document["components"][kind]
    }
    assert references == defined


def test_operations_have_names_of_their_own_and_parameters_for_what_is_in_their_paths() -> None:
    paths = api_document()["paths"]
    ids = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(ids) == len(set(ids)) == len(OPERATIONS) + 1  # and the events
    for operation in OPERATIONS:
        described = paths[operation.path][operation.method.lower()]
        in_path = [each["name"] for each in described.get("parameters", ()) if each["in"] == "path"]
        assert in_path == operation.in_path
        assert described["summary"].endswith(".")


def test_bodies_and_queries_have_what_the_models_take() -> None:
    fields = {type_: set(type_.__struct_fields__) for type_ in (shapes.RunsQuery, shapes.NewRun, shapes.ScheduleBody)}
    assert fields[shapes.RunsQuery] - {"count"} == set(RunQuery.__struct_fields__)
    assert fields[shapes.NewRun] - {"workflow", "reason"} == set(StartRequest.__struct_fields__) - {"name"}
    assert fields[shapes.ScheduleBody] - {"reason"} == set(ScheduleRequest.__struct_fields__) - {"name"}
    assert set(shapes.LimitBody.__struct_fields__) - {"reason"} == set(LimitRequest.__struct_fields__) - {"scope"}


async def test_an_answer_has_the_fields_that_the_document_says(api: Browser, client: Any, worker: Any) -> None:
    await (await client.start("echo", {"n": 1})).result(20)
    schemas = api_document()["components"]["schemas"]
    [run] = (await api.get("/runs")).json()["items"]
    answers = {
        "RunRow": run,
        "RunDetail": (await api.get(f"/runs/{run['id']}")).json(),
        "HistoryPage": (await api.get(f"/runs/{run['id']}/history")).json(),
        "Overview": (await api.get("/stats")).json(),
        "TypeDetail": (await api.get("/types/echo")).json(),
        "QueueDetail": (await api.get("/queues/default")).json(),
        "FailuresView": (await api.get("/dead-letter")).json(),
        "Value": (await api.get(f"/runs/{run['id']}/payloads/input")).json(),
    }
    for name, answer in answers.items():
        assert list(answer) == schemas[name]["required"], name


def _values(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, inside in value.items():
            if name == key:
                yield inside
            else:
                yield from _values(inside, key)
    elif isinstance(value, list):
        for inside in value:
            yield from _values(inside, key)
