"""How blocks are read from a page, and that what sentences name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import runnerq
from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.console.access import ALL
from runnerq.runtime.worker import Worker
from runnerq.testing import Environment
from runnerq.workflow.context import Context
from tests.docs.pages import all_pages, blocks_of, module_text, modules_of, name_of, sentences_of

PAGE = """\
# A page

<!-- code: given
def given() -> int: return 1
-->
```python
from __future__ import annotations

number = given()
```

1. ```sh
   runnerq stats
   ```

<!-- code: not ours -->
```python
import celery
```

<!-- code: alone -->

```python
number = "another one"
```

```python
total = number + 1
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    return file


def test_the_blocks_of_a_page_are_one_module_at_their_lines(page: Path) -> None:
    lines = module_text(page).splitlines()
    assert {number: line for number, line in enumerate(lines, 1) if line and number > 1} == {
        4: "def given() -> int: return 1",
        9: "number = given()",
        28: "total = number + 1",
    }
    assert lines[0].startswith("from __future__ import annotations")


def test_a_comment_makes_a_block_another_thing(page: Path) -> None:
    assert [(block.language, block.mark) for block in blocks_of(page)] == [
        ("python", "given"),
        ("python", ""),
        ("sh", ""),
        ("python", "not ours"),
        ("python", "alone"),
        ("python", ""),
    ]
    assert list(modules_of(page)) == ["page.py", "page_24.py"]
    assert "celery" not in "".join(modules_of(page).values())
    assert [line for line in sentences_of(page).splitlines() if line] == [
        "# A page",
        "<!-- code: not ours -->",
        "<!-- code: alone -->",
    ]


def test_a_block_without_an_end_and_a_comment_without_a_block_are_told(tmp_path: Path) -> None:
    open_page, bare_page = tmp_path / "open.md", tmp_path / "bare.md"
    open_page.write_text("```python\nx = 1\n")
    bare_page.write_text("<!-- code: alone -->\nA sentence.\n")
    with pytest.raises(ValueError, match=r"open\.md:1"):
        blocks_of(open_page)
    with pytest.raises(AssertionError, match=r"bare\.md:2"):
        blocks_of(bare_page)


NAMED = {"rq": runnerq, "ctx": Context, "client": Client, "handle": Handle, "env": Environment, "worker": Worker}


def test_what_sentences_name_of_the_library_is_there() -> None:
    named = re.compile(rf"(?<![\w.])({'|'.join(NAMED)})\.([a-z_]+|[A-Z]\w+)\b")
    wrong = {
        f"{name_of(page)}: {owner}.{name}"
        for page in all_pages()
        for words in re.findall(r"`([^`\n]+)`", sentences_of(page))
        for owner, name in named.findall(words)
        if not hasattr(NAMED[owner], name) and not (owner == "ctx" and name[0].isupper())  # RunnerQ for Go's
        if f"{owner}.{name}" not in ALL  # a permission of the console
    }
    assert sorted(wrong) == []
