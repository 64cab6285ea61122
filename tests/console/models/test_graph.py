from __future__ import annotations

from datetime import UTC, datetime

from runnerq.console.models.graph import COLUMN, EDGE, LINE, graph
from runnerq.console.models.runs import Count, RunRow
from runnerq.console.models.tree import TreeNode
from runnerq.persistence.records import Status


def a_node(name: str, depth: int) -> TreeNode:
    run = RunRow(
        id=name,
        kind="workflow",
        workflow=name,
        version=1,
        key=None,
        status=Status.RUNNING,
        waiting_for=None,
        due_at=None,
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
        started_at=None,
        ended_at=None,
        duration=None,
        attempts=None,
        queue="default",
        priority="normal",
        parent_id=None,
        root_id="root",
        error_line=None,
        reason=None,
        cancel_requested=False,
        generation=1,
    )
    return TreeNode(run=run, depth=depth, children=Count(0, capped=False), open=True)


def test_leaves_stand_on_lines_of_their_own_and_each_run_in_the_middle_of_those_below_it():
    nodes = [a_node("root", 0), a_node("a", 1), a_node("a1", 2), a_node("a2", 2), a_node("b", 1)]
    drawing = graph(nodes)
    lines = {spot.node.run.id: (spot.y - EDGE) / LINE for spot in drawing.spots}
    assert lines == {"root": 1.75, "a": 1.0, "a1": 0.5, "a2": 1.5, "b": 2.5}
    assert [spot.x for spot in drawing.spots] == [EDGE + depth * COLUMN for depth in (0, 1, 2, 2, 1)]
    assert drawing.height == 2 * EDGE + 3 * LINE


def test_a_line_leads_from_each_run_to_those_that_it_has_started():
    drawing = graph([a_node("root", 0), a_node("a", 1), a_node("a1", 2), a_node("b", 1)])
    at = {spot.node.run.id: (spot.x, spot.y) for spot in drawing.spots}
    assert [(link.x1, link.y1, link.x2, link.y2) for link in drawing.links] == [
        (*at["root"], *at["a"]),
        (*at["a"], *at["a1"]),
        (*at["root"], *at["b"]),
    ]


def test_a_tree_of_one_run_has_no_line():
    drawing = graph([a_node("root", 0)])
    assert (len(drawing.spots), drawing.links) == (1, ())
