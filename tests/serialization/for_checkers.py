"""A module that imports what it is annotated with for type checkers only, as one should not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tests.serialization.models as shop_models
    from runnerq.workflow.commands import Flow
    from runnerq.workflow.context import Context
    from tests.serialization.models import Item
    from tests.serialization.models import Order as ShopOrder


def price(order: ShopOrder) -> int:
    return len(order.items)


def find(name: str) -> list[Item]:
    return []


def pack(order: shop_models.Order) -> None: ...


def plain(ctx: Context, name: str) -> Flow[int]:
    yield from ctx.sleep(1)
    return 1


def un_annotated_result(ctx: Context, name: str):
    yield ctx.sleep(1)


def delegating(ctx: Context, name: str) -> Flow[int]:
    return plain(ctx, name)
