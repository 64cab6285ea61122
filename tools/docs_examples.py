"""The examples as pages of the documentation's site: what each README says, and the program.

Rules
- A hook of MkDocs (see mkdocs.yml): the pages are made whenever the site is, and stand in no folder.
- Links are written for whoever reads the files in the repository: those between ``docs`` and ``examples`` are turned
  here into those of the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

EXAMPLES = Path(__file__).parents[1] / "examples"
BEHIND = "Guides"
"""The entry of the menu that theirs follows."""
_LISTED = re.compile(r"^\| \[(\w+)\]\(\1/README\.md\)", re.MULTILINE)
_FROM_DOCS = re.compile(r"\]\((?:\.\./)+examples/(?:(\w+)/)?README\.md\)")
_TO_DOCS = re.compile(r"\]\((?:\.\./)+docs/")
_EACH_OTHER = re.compile(r"\]\((?:\.\./)?(\w+)/README\.md\)")
_OUTPUT = "It prints what is in"
"""What the program stands before; where a README has no such line, it stands at the end."""
_PRINTED = re.compile(r"\[(expected\.txt)\]\(expected\.txt\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put them into the menu, in the order in which they are to be read."""
    listed = _LISTED.findall((EXAMPLES / "README.md").read_text(encoding="utf-8"))
    others = sorted({path.parent.name for path in EXAMPLES.glob("*/README.md")} - set(listed))
    pages = [f"examples/{name}.md" for name in ("index", *listed, *others)]
    menu: list[Any] = config.nav or []
    place = next(number for number, entry in enumerate(menu, 1) if BEHIND in entry)
    menu.insert(place, {"Examples": pages})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make the pages."""
    for readme in [EXAMPLES / "README.md", *EXAMPLES.glob("*/README.md")]:
        name = "index" if readme.parent == EXAMPLES else readme.parent.name
        files.append(File.generated(config, f"examples/{name}.md", content=_page(readme)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs' own names
    """Have links to the examples lead to their pages."""
    up = "../" * page.file.src_uri.count("/")
    return _FROM_DOCS.sub(lambda found: f"]({up}examples/{found[1] or 'index'}.md)", markdown)


def _page(readme: Path) -> str:
    text = _TO_DOCS.sub("](../", readme.read_text(encoding="utf-8"))
    text = _PRINTED.sub(r"`\1`", _EACH_OTHER.sub(r"](\1.md)", text))
    programs = "\n".join(
        f"`{file.name}`:\n\n```python\n{file.read_text(encoding='utf-8')}```\n"
        for file in sorted(readme.parent.glob("*.py"))
    )
    about, printed, rest = text.partition(_OUTPUT)
    return f"{about.rstrip()}\n\n{programs}\n{printed}{rest}"
