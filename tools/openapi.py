"""Write the API's document to ``docs/reference/openapi.json``; a test says when that is due."""

from __future__ import annotations

from pathlib import Path

from runnerq.console.api.openapi import api_document, as_text

KEPT = Path(__file__).parent.parent / "docs" / "reference" / "openapi.json"

if __name__ == "__main__":
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text(as_text(api_document()), encoding="utf-8")
