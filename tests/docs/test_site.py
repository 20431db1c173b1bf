"""The site as MkDocs builds it: all pages, no broken link, nothing loaded from elsewhere, every public name."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

import nacre
from support.pages import DOCS, ROOT


class Reader(HTMLParser):
    """Anchors, links and loaded files of a page."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads = {""}, [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[a] for a in ("id", "name") if values.get(a)}
        if tag in ("a", "area") and values.get("href") is not None:
            self.links.append(values["href"])
        if tag == "link" and values.get("href"):
            self.loads.append(values["href"])
        if tag != "a" and values.get("src"):
            self.loads.append(values["src"])


def broken(site):
    """Links and loads within the site that lead nowhere."""
    pages = {path.resolve(): Reader(path) for path in site.rglob("*.html")}
    result = []
    for page, found in pages.items():
        for address in found.links + found.loads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            path, anchor = unquote(parts.path), unquote(parts.fragment)
            target = site / path.lstrip("/") if path.startswith("/") else page.parent / path if path else page
            target = (target / "index.html" if target.is_dir() else target).resolve()
            if not target.is_file() or (target in pages and anchor not in pages[target].anchors):
                result.append(f"{page.name}: {address}")
    return result


def loaded_from_elsewhere(site):
    """What pages and style sheets load from other hosts."""
    result = [a for path in site.rglob("*.html") for a in Reader(path).loads if urlsplit(a).netloc]
    for path in site.rglob("*.css"):
        result += re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", path.read_text())
    return result


def test_the_link_checker_finds_broken_links(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_text('<h1 id="here">x</h1><a href="#there">y</a><a href="..">z</a>')
    good = '<a href="sub/#here">a</a><a href="#">b</a><a href="https://example.org/x">c</a><a href="/sub/">d</a>'
    (tmp_path / "index.html").write_text(good + '<a href="gone/">e</a><a href="sub/#gone">f</a><img src="no.png">')
    found = ["index.html: #there", "index.html: gone/", "index.html: no.png", "index.html: sub/#gone"]
    assert sorted(broken(tmp_path)) == found


def test_the_load_checker_finds_other_hosts(tmp_path):
    loads = '<script src="https://a.org/x.js"></script><link href="//b.org/y.css"><img src="z.png">'
    (tmp_path / "index.html").write_text(loads + '<a href="//c.org">')
    (tmp_path / "s.css").write_text("@import 'https://d.org/f.css'; p { background: url(data:x) url('e.png') }")
    assert loaded_from_elsewhere(tmp_path) == ["https://a.org/x.js", "//b.org/y.css", "https://d.org/f.css"]


def build(source, target):
    # Not --quiet: it drops warnings before --strict can count them.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_site(tmp_path):
    done = build(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("INFO ")] == []
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("")
        assert (tmp_path / (name.parent if name.name == "index" else name) / "index.html").is_file()
    assert not list(tmp_path.rglob("*.py*"))
    assert broken(tmp_path) == []
    assert loaded_from_elsewhere(tmp_path) == []
    anchors = Reader(tmp_path / "api" / "index.html").anchors
    for module in (nacre, nacre.functional, nacre.data):
        for name, value in vars(module).items():
            if not name.startswith("_") and callable(value):  # certify is also the name of its module
                assert {f"{module.__name__}.{name}", f"{value.__module__}.{name}"} & anchors, name


@pytest.mark.slow
def test_unreadable_mathematics_fails_the_build(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# x\n\nso $\\nosuchcommand$ is\n")
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\nhooks: [{DOCS / 'hooks' / 'math.py'}]\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "nosuchcommand" in done.stderr
