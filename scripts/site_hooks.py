"""What MkDocs is told about this repository: pages at its root, links that leave docs/, and options of code blocks.

The pages are written for a code host, where links to tests and results work and the words behind the language of a code
block do nothing. Here such files are copied into the site, and the words are taken away before the page is made.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from collections.abc import Callable

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
FENCE = re.compile(r"^(?P<fence>[ ]*```+)(?P<language>\w*)[^\n`]*\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.M | re.S)
LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<target>[^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages at the root of the repository, and whatever file a page links to."""
    for name in ROOT_PAGES:
        files.append(File.generated(config, f"project/{name}", content=(ROOT / name).read_text(encoding="utf-8")))
    for page in [*files.documentation_pages()]:
        for path in linked_files(_source(page.src_uri), page.content_string):
            if (uri := _place(path)) not in files.src_uris:
                files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with links that hold in the site, and code blocks that have a language and nothing else."""
    source = _source(page.file.src_uri)

    def link(match: re.Match[str]) -> str:
        return _rewritten(match, source, page.file.src_uri)

    return _outside_code(markdown, lambda text: LINK.sub(link, text))


def linked_files(source: str, markdown: str) -> set[str]:
    """Files of the repository that a page links to and that are no pages of the site."""
    targets = (match["target"].partition("#")[0] for match in LINK.finditer(FENCE.sub("", markdown)))
    paths = {_path(source, target) for target in targets if target and not re.match(r"[a-z]+:", target)}
    return {path for path in paths if _place(path).startswith("repository/") and (ROOT / path).is_file()}


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """Apply a function to what stands between the code blocks."""
    parts, end = [], 0
    for match in FENCE.finditer(markdown):
        block = f"{match['fence']}{match['language']}\n{match['body']}{match['fence']}"
        parts += [change(markdown[end : match.start()]), block]
        end = match.end()
    return "".join([*parts, change(markdown[end:])])


def _rewritten(match: re.Match[str], source: str, uri: str) -> str:
    target, _, anchor = match["target"].partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return match[0]
    path = _path(source, target)
    if (ROOT / path).is_dir():
        return f"`{path}`"
    place = os.path.relpath(_place(path), os.path.dirname(uri) or ".")
    return f"{match['text']}({place}{'#' if anchor else ''}{anchor})"


def _source(uri: str) -> str:
    """Where a page of the site lies in the repository."""
    return uri.removeprefix("project/") if uri.startswith("project/") else f"docs/{uri}"


def _path(source: str, target: str) -> str:
    """What a link of a page leads to, from the root of the repository."""
    return os.path.normpath(os.path.join(os.path.dirname(source), target))


def _place(path: str) -> str:
    """Where a file of the repository lies in the site."""
    if path in ROOT_PAGES:
        return f"project/{path}"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"
