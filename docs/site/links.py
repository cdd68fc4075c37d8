"""The links of a built site: each in it has a file and an element, and nothing is loaded from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The links and the ids of a page, and what it loads from the network."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.ids.update(value for name in ("id", "name") if (value := named.get(name)))
        if target := named.get(LINKS.get(tag, "")):
            self.links.append(target)
            if tag != "a" and urlsplit(target).netloc:
                self.loaded.append(target)


def broken_links(site: Path, skip: frozenset[str] = frozenset()) -> list[str]:
    """Return each link that has no target in the site, and what a page would load from the network.

    Pages of folders in `skip` are targets, and are not read.
    """
    pages = {path: Page(path) for path in site.rglob("*.html") if not skip & set(path.relative_to(site).parts)}
    broken = []
    for path, page in pages.items():
        broken += [f"{path.relative_to(site)}: {one} needs a network" for one in page.loaded]
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            if target.is_dir():  # a browser shows the folder of a site that is opened from files
                target /= "index.html"
            ids = pages[target].ids if target in pages else None
            fragment = unquote(url.fragment)
            if not target.is_file():
                broken.append(f"{path.relative_to(site)}: {link} does not exist")
            elif fragment and ids is not None and fragment not in ids:
                broken.append(f"{path.relative_to(site)}: {link} has no such place")
    return sorted(set(broken))
