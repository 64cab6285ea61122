"""What a worker serves, and what a workflow means by a function."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
import pydantic
import pytest

from runnerq.errors import ConfigurationError
from runnerq.retry import RetryPolicy
from runnerq.runtime.registry import Registry, target_of
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import activity, workflow


@activity
async def ship(order: str) -> str:
    return order


@workflow
def checkout(ctx: Context, order: str) -> Flow[str]:
    return (yield from ctx.child(ship, order))


@workflow(name="checkout", version=2)
def checkout_v2(ctx: Context, order: str) -> Flow[str]:
    return (yield from ctx.child(ship, order))


def test_it_serves_workflows_by_version_and_activities_by_name() -> None:
    registry = Registry([checkout, checkout_v2], [ship])
    assert registry.served() == ("checkout@1", "checkout@2", "ship")
    found = registry.get("workflow", "checkout", 2)
    assert found is not None
    assert found.fn is checkout_v2
    assert registry.get("workflow", "checkout", 3) is None
    assert registry.get("activity", "checkout", 1) is None


def test_the_same_name_and_version_twice_is_refused_and_names_both_places() -> None:
    @workflow(name="checkout")
    def another(ctx: Context) -> Flow[None]:
        yield ctx.sleep(1)

    with pytest.raises(ConfigurationError, match=r"checkout@1.*test_registry\.py:\d+.*test_registry\.py:\d+"):
        Registry([checkout, another], [])


def test_the_same_function_twice_is_one() -> None:
    assert Registry([checkout, checkout], [ship, ship]).served() == ("checkout@1", "ship")


def test_a_workflow_is_no_activity_and_an_activity_no_workflow() -> None:
    with pytest.raises(ConfigurationError, match="ship"):
        Registry([ship], [])
    with pytest.raises(ConfigurationError, match="checkout"):
        Registry([], [checkout])


def test_an_annotation_that_cannot_be_resolved_is_refused_and_named() -> None:
    @workflow
    def broken(ctx: Context, order: Ordre) -> Flow[None]:  # type: ignore[name-defined]  # noqa: F821 - the point
        yield ctx.sleep(1)

    with pytest.raises(ConfigurationError, match="Ordre"):
        Registry([broken], [])


def test_a_type_that_nothing_can_be_decoded_into_is_refused() -> None:
    @activity
    async def odd(value: type[object]) -> None: ...

    with pytest.raises(ConfigurationError, match="value"):
        Registry([], [odd])


def test_only_takes_functions_and_names_and_refuses_what_is_not_registered() -> None:
    registry = Registry([checkout, checkout_v2], [ship])
    assert registry.narrow(None) == ("checkout@1", "checkout@2", "ship")
    assert registry.narrow([ship]) == ("ship",)
    assert registry.narrow(["checkout"]) == ("checkout@1", "checkout@2")
    assert registry.narrow(["checkout@2", ship, "ship"]) == ("checkout@2", "ship")
    with pytest.raises(ConfigurationError, match="nobody"):
        registry.narrow(["nobody"])


def test_an_undeclared_function_is_taken_for_what_it_is() -> None:
    def plain(ctx, order):  # type: ignore[no-untyped-def]
        yield ctx.sleep(1)

    async def work() -> int:
        return 1

    assert [target_of(fn).kind for fn in (plain, work)] == ["workflow", "activity"]
    assert Registry([plain], [work]).served() == ("plain@1", "work")


def test_what_a_workflow_means_by_a_function_need_not_be_registered() -> None:
    registry = Registry([checkout], [])
    assert registry.target(ship).served == "ship"
    assert registry.target(checkout).served == "checkout@1"
    partial: Any = functools.partial(ship)
    assert registry.target(partial).served == "ship"


def test_definitions_say_queues_builds_and_declared_options() -> None:
    @activity(retry=RetryPolicy(max_attempts=7), timeout=5, queue="mail")
    async def send() -> None: ...

    plain, with_options = Registry([checkout], [send]).definitions("b1")
    assert (plain.kind, plain.name, plain.version) == ("workflow", "checkout", 1)
    assert (plain.queue, plain.build) == ("default", "b1")
    assert (with_options.queue, with_options.version) == ("mail", 0)
    assert '"timeout":5' in str(with_options.options)
    assert '"max_attempts":7' in str(with_options.options)


# --- what is written of it --------------------------------------------------------------------------------------------


class Address(msgspec.Struct):
    street: str
    floor: int = 0


class Model(pydantic.BaseModel):
    street: str


def schema_of(fn: Any) -> Any:
    [definition] = Registry([], [activity(fn)]).definitions("b")
    return None if definition.schema is None else msgspec.json.decode(definition.schema)


def test_a_definition_says_what_its_function_is_called_with() -> None:
    def send(to: Address, lines: list[str], *, copies: int = 1) -> None: ...

    schema = schema_of(send)
    assert schema["type"] == "object"
    assert list(schema["properties"]) == ["to", "lines", "copies"]
    assert schema["properties"]["lines"] == {"type": "array", "items": {"type": "string"}}
    assert schema["required"] == ["to", "lines"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Address"]["required"] == ["street"]


def test_a_workflows_context_is_no_part_of_what_it_is_called_with() -> None:
    [definition] = Registry([checkout], []).definitions("b")
    assert definition.schema is not None
    assert list(msgspec.json.decode(definition.schema)["properties"]) == ["order"]


def test_what_is_not_annotated_may_be_anything_and_further_keywords_are_as_annotated() -> None:
    def send(to, *lines, **headers: int): ...  # type: ignore[no-untyped-def]

    schema = schema_of(send)
    assert schema["properties"] == {"to": {}}
    assert schema["additionalProperties"] == {"type": "integer"}
    assert "$defs" not in schema


def test_a_function_with_a_type_that_has_no_schema_is_registered_without_one() -> None:
    def send(to: Model) -> None: ...

    assert schema_of(send) is None
