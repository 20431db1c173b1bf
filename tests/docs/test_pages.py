"""The documents: their code runs, their mathematics is readable, their links lead somewhere, nothing is loaded."""

import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import markdown
import pytest
from mkdocs.exceptions import PluginError

import nacre
from nacre.models import _registry as registry

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]
SLOW = {"deploy.md": pytest.mark.slow}  # it compiles


def load_hook():
    spec = importlib.util.spec_from_file_location("math_hook", DOCS / "hooks" / "math.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hook = load_hook()
PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))


def render(text):
    """Markdown to HTML, with the hook before and after, as MkDocs runs it."""
    text = hook.on_page_markdown(text, page=PAGE, config=None, files=None)
    content = markdown.markdown(text, extensions=["tables", "pymdownx.superfences"])
    return hook.on_page_content(content, page=PAGE, config=None, files=None)


# Code


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own, when it compiles
@pytest.mark.parametrize("page", [pytest.param(p, id=p.name, marks=SLOW.get(p.name, ())) for p in WITH_CODE])
def test_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))  # a page may register a model
    text, names = page.read_text(), {"__name__": "document"}
    for block in BLOCK.finditer(text):
        before = "\n" * text.count("\n", 0, block.start(1))  # so that errors name the page's line
        exec(compile(before + block[1], page, "exec"), names)


def test_pages_that_promise_code_have_it():
    names = {page.name for page in WITH_CODE}
    pages = ("nac-in-one-page", "what-is-t", "choosing", "wiring", "from-multihead-attention", "index", "README")
    pages += ("streaming", "certify", "deploy", "models")
    assert {f"{name}.md" for name in pages} <= names


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    for page in DOCS.rglob("*.md"):
        assert f": {page.relative_to(DOCS).as_posix()}\n" in navigation


def test_the_table_of_the_demo_is_the_measurement():
    measured = json.loads((ROOT / "results" / "spirals-demo.json").read_text())
    page = (DOCS / "demo.md").read_text()
    assert len(measured["rmse"]) == 5
    for name in measured["rmse"]:
        size = measured["parameters"].get(name)
        cells = [f"{size['all']:,} ({size['core']:,})" if size else "control"]
        for metric in ("rmse", "mae"):
            for values in measured[metric][name].values():
                cells.append(f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}")
        assert f"| {name} | {' | '.join(cells)} |" in page


# Mathematics


def test_inline_mathematics_becomes_mathml():
    result = render("Let $x_i$ be *small*, and $y \\le 1$.")
    assert result.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline">') == 2
    assert "<msub><mi>x</mi><mi>i</mi></msub>" in result
    assert "<em>small</em>" in result
    assert "$" not in result


def test_inline_mathematics_may_cross_a_line_but_not_a_paragraph():
    assert render("so $a +\nb$ is").count("<math") == 1
    with pytest.raises(PluginError, match="lone \\$ in line 1"):
        render("so $a +\n\nb$ is")


def test_markdown_does_not_read_mathematics():
    assert "<em>" not in render("$a_1 * b_2 * c_3$ and $d_{_4}$")
    row = render("| a | b |\n|---|---|\n| $|x|$ | 2 |")  # bars are cell borders elsewhere
    assert row.count("<td>") == 2
    assert "<mi>x</mi>" in row


def test_display_mathematics_is_a_block():
    result = render("before\n\n$$\n\\frac{a}{b}\n$$\n\nafter")
    assert '<div class="equation"><div class="equation-body"><math' in result
    assert 'display="block"' in result
    assert "<mfrac>" in result
    assert "equation-number" not in result
    assert "<p><div" not in result


def test_display_mathematics_must_stand_alone():
    with pytest.raises(PluginError, match="paragraph of its own"):
        render("so $$a$$ holds")
    with pytest.raises(PluginError, match="paragraph of its own"):
        render("$$a$$ holds")


def test_tag_becomes_a_number():
    result = render("$$ a = b \\tag{17} $$")
    assert '<span class="equation-number">(17)</span></div>' in result
    assert "17" not in result.split("<span")[0]
    with pytest.raises(PluginError, match="more than one"):
        render("$$ a \\tag{1} = b \\tag{2} $$")


@pytest.mark.parametrize(
    "code",
    [
        "```bash\necho $HOME $PATH\n```",
        "~~~\n$a$\n~~~",
        "- item\n\n    ```bash\n    echo $HOME $PATH\n    ```",
        "text `$a$` text",
        "text ``$a` $b$`` text",
    ],
)
def test_code_is_left_alone(code):
    assert hook.on_page_markdown(code, page=PAGE) == code
    assert "<math" not in render(code)


def test_mathematics_beside_code():
    result = render("`$a$` and $b$ and `$c$`\n\n```\n$d$\n```\n\n$e$")
    assert result.count("<math") == 2
    assert "<mi>b</mi>" in result
    assert "<mi>e</mi>" in result


def test_dollar_amounts_are_left_alone():
    assert render("from \\$5 to \\$10") == "<p>from $5 to $10</p>"
    with pytest.raises(PluginError, match=r"page\.md: lone \$ in line 3; write \\\$"):
        render("one\n\nfrom $5 on")


@pytest.mark.parametrize(
    "latex",
    ["\\frac{1}{", "x_", "\\left( x", "\\nosuchcommand x", "a } b", "a & b", "\\text{a < b}", "a \\\\ b", "x^1^2"],
)
def test_what_cannot_be_read_stops_the_build(latex):
    with pytest.raises(PluginError, match=r"page\.md: .*LaTeX"):
        render(f"$$ {latex} $$")
    with pytest.raises(PluginError, match=r"page\.md: .*LaTeX"):
        render(f"so ${latex}$ is")


def test_mathematics_in_a_heading_is_refused():
    with pytest.raises(PluginError, match="heading"):
        render("# About $t$")


# The site


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


def is_foreign(address):
    return bool(urlsplit(address).netloc)


def target_of(page, address, site):
    """The file that an address on a page means."""
    path = unquote(urlsplit(address).path)
    target = site / path.lstrip("/") if path.startswith("/") else page.parent / path
    target = page if not path else target
    return target / "index.html" if target.is_dir() else target


def broken(site):
    """Links and loads within the site that lead nowhere."""
    pages = {path.resolve(): Reader(path) for path in site.rglob("*.html")}
    result = []
    for path, page in pages.items():
        for address in page.links + page.loads:
            if urlsplit(address).scheme or is_foreign(address):
                continue
            target = target_of(path, address, site).resolve()
            anchor = unquote(urlsplit(address).fragment)
            if not target.is_file() or (target in pages and anchor not in pages[target].anchors):
                result.append(f"{path.name}: {address}")
    return result


def fetched(site):
    """What pages and style sheets load from other hosts."""
    result = [a for path in site.rglob("*.html") for a in Reader(path).loads if is_foreign(a)]
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
    page = (
        '<script src="https://a.org/x.js"></script><link href="//b.org/y.css"><img src="z.png"><a href="//c.org">'
    )
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "s.css").write_text("@import 'https://d.org/f.css'; p { background: url(data:x) url('e.png') }")
    assert fetched(tmp_path) == ["https://a.org/x.js", "//b.org/y.css", "https://d.org/f.css"]


def build(source, target):
    # Not --quiet: it drops warnings before --strict can count them.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    done = build(ROOT, target)
    assert done.returncode == 0, done.stderr
    said = (done.stdout + done.stderr).splitlines()
    assert [line for line in said if not line.startswith("INFO ")] == []
    return target


@pytest.mark.slow
def test_every_page_is_built_and_nothing_else_is_published(site):
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("")
        folder = name.parent if name.name == "index" else name
        assert (site / folder / "index.html").is_file()
    assert not list(site.rglob("*.py*"))


@pytest.mark.slow
def test_links_of_the_site_lead_somewhere(site):
    assert broken(site) == []


@pytest.mark.slow
def test_no_page_loads_anything_from_another_host(site):
    assert fetched(site) == []


@pytest.mark.slow
def test_the_api_page_has_every_public_name(site):
    anchors = Reader(site / "api" / "index.html").anchors
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
