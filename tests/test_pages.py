"""The pages for users: each is found from the README, and no link leads nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(#[^)\s]*)?\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    return {
        "#" + re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in HEADING.findall(page.read_text())
    }


def test_the_readme_leads_to_every_page() -> None:
    named = set(re.findall(r"\(docs/([a-z-]+\.md)", (ROOT / "README.md").read_text()))
    assert named == {page.name for page in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_link_leads_nowhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{page.name} links to {target}{anchor}"
