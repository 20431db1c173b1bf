"""The pages: their code runs, what they name exists, their links lead somewhere, their mathematics is read."""

import functools
import importlib.util
import pkgutil
import re
import shlex
import tomllib
from types import SimpleNamespace

import markdown
import pytest
import torch
import typer.main
from mkdocs.exceptions import PluginError

from nacre.cli.app import app
from nacre.models import _registry as registry
from support.hypothesis import DEEP
from support.pages import BLOCK, DOCS, PAGES, ROOT

WITH_CODE = [page for page in PAGES if "```python\n" in page.read_text()]
COMMANDS = typer.main.get_command(app)
SLOW = dict.fromkeys(
    ("any-moment.md", "deploy.md", "estimators.md", "your-own-task.md"), pytest.mark.slow
)  # they compile, and train

SMALL = {  # in tests
    "missing-values.md": ("patients = 2_000", "patients = 60"),
    "README.md": ("max_steps=100", "max_steps=2"),
}

# Code and commands


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own, when it compiles
@pytest.mark.filterwarnings("ignore:.* does not beat the control", "ignore:.* lies far outside")
@pytest.mark.parametrize("page", [pytest.param(p, id=p.name, marks=SLOW.get(p.name, ())) for p in WITH_CODE])
def test_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))  # a page may register a model
    if not DEEP:  # traced all the same, but no C++ is compiled
        monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    text, names = page.read_text().replace(*SMALL.get(page.name, ("", ""))), {"__name__": "document"}
    for block in BLOCK.finditer(text):
        if block[1] == "python":
            before = "\n" * text.count("\n", 0, block.start(2))  # so that errors name the page's line
            exec(compile(before + block[2], page, "exec"), names)


def test_pages_that_promise_code_have_it():
    pages = "nac-in-one-page what-is-t choosing wiring from-multihead-attention streaming certify deploy models"
    assert {f"{name}.md" for name in ("README", "index", *pages.split())} <= {page.name for page in WITH_CODE}


def named_commands(text):
    """Commands of nacre in blocks and in lines of a page, as words."""
    text = text.replace("\\\n", "")
    lines = "".join(block[2] for block in BLOCK.finditer(text) if block[1] in ("bash", "console")).splitlines()
    lines += re.findall(r"`(nacre [a-z][^`\n]*)`", BLOCK.sub("", text))
    for line in lines:
        if found := re.search(r"(?:^|\s)nacre (?=[a-z])(.*)", line):
            yield shlex.split(found[1], comments=True)


def missing(words):
    """What a command names that does not exist."""
    command = COMMANDS
    while words and hasattr(command, "commands"):
        if words[0] not in command.commands:
            return words[:1]
        command, words = command.commands[words[0]], words[1:]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return [word for word in words if re.match("--?[a-z]", word) and word not in options]


def test_commands_that_pages_name_exist():
    assert missing(["data", "features", "X", "--skip-bad"]) == []
    assert missing(["train", "x", "-m", "nac", "--fold", "2"]) == ["--fold"]
    assert missing(["trane", "x"]) == ["trane"]
    found = [(page.name, words) for page in PAGES for words in named_commands(page.read_text())]
    assert len(found) > 100
    assert [(page, words) for page, words in found if missing(words)] == []


def test_nothing_says_to_install_the_project_of_others_that_has_our_name():
    others = re.compile(r"(?:pip3?|uv|pipx)[^\n]{0,40} (?:install|add|inject) [^\n`]*?(?<![\w./-])nacre(?![\w-])")
    for text, bad in (
        ("pip install nacre", True),
        ("pip install -U 'nacre[train]'", True),
        ("uv pip install nacre==1", True),
        ("pip install 'nacre-attention[train]'", False),
        ("pip install -c constraints.txt -e '.[train]'", False),
    ):
        assert bool(others.search(text)) == bad, text
    sources = [path for folder in ("src", "tools", "examples") for path in (ROOT / folder).rglob("*.py")]
    for path in [*PAGES, *sources, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "Makefile"]:
        assert not others.search(path.read_text()), path
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "nacre-attention"
    assert all(one.startswith("nacre-attention[") for one in project["optional-dependencies"]["all"])


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    for page in DOCS.rglob("*.md"):
        assert f": {page.relative_to(DOCS).as_posix()}\n" in navigation


def test_links_in_the_documents_lead_somewhere():
    for path in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
            assert target.startswith("http") or (path.parent / target).exists(), f"{path.name}: {target}"


def test_files_targets_and_modules_that_the_documents_name_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"setup", "demo", "test", "lint", "bench", "docs"} <= targets
    for path in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        text = path.read_text()
        named = {a or b for a, b in re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", text, re.MULTILINE)}
        assert named <= targets, path.name
        for name in re.findall(r"(?<![\w/-])((?:tools|tests|examples|results)/[\w/.-]+\.\w+)", text):
            if "NAME" not in name and name != "tools/recall_trials.py":  # deleted, says the page
                assert (ROOT / name).exists(), f"{path.name}: {name}"
        for name in re.findall(r"`(nacre(?:\.[A-Za-z_]+)+)", text):
            pkgutil.resolve_name(name)


# Mathematics


@pytest.fixture(scope="module")
def hook():
    spec = importlib.util.spec_from_file_location("math_hook", DOCS / "hooks" / "math.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def render(hook):
    """Markdown to HTML, with the hook before and after, as MkDocs runs it."""
    page = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))

    def run(text):
        text = hook.on_page_markdown(text, page=page, config=None, files=None)
        content = markdown.markdown(text, extensions=["tables", "pymdownx.superfences"])
        return hook.on_page_content(content, page=page, config=None, files=None)

    return run


def test_inline_mathematics_becomes_mathml(render):
    result = render("Let $x_i$ be *small*, and $y \\le 1$.")
    assert result.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline">') == 2
    assert "<msub><mi>x</mi><mi>i</mi></msub>" in result
    assert "<em>small</em>" in result
    assert "$" not in result
    assert render("so $a +\nb$ is").count("<math") == 1


def test_markdown_does_not_read_mathematics(render):
    assert "<em>" not in render("$a_1 * b_2 * c_3$ and $d_{_4}$")
    row = render("| a | b |\n|---|---|\n| $|x|$ | 2 |")  # bars are cell borders elsewhere
    assert row.count("<td>") == 2
    assert "<mi>x</mi>" in row


def test_display_mathematics_is_a_block(render):
    result = render("before\n\n$$\n\\frac{a}{b}\n$$\n\nafter")
    assert '<div class="equation"><div class="equation-body"><math' in result
    assert 'display="block"' in result
    assert "<mfrac>" in result
    assert "equation-number" not in result
    assert "<p><div" not in result


def test_tag_becomes_a_number(render):
    result = render("$$ a = b \\tag{17} $$")
    assert '<span class="equation-number">(17)</span></div>' in result
    assert "17" not in result.split("<span")[0]


def test_code_and_dollar_amounts_are_left_alone(render, hook):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))
    for code in (
        "```bash\necho $HOME $PATH\n```",
        "~~~\n$a$\n~~~",
        "- item\n\n    ```bash\n    echo $HOME $PATH\n    ```",
        "text `$a$` text",
        "text ``$a` $b$`` text",
    ):
        assert hook.on_page_markdown(code, page=page) == code
        assert "<math" not in render(code), code
    result = render("`$a$` and $b$ and `$c$`\n\n```\n$d$\n```\n\n$e$")
    assert result.count("<math") == 2
    assert "<mi>b</mi>" in result
    assert "<mi>e</mi>" in result
    assert render("from \\$5 to \\$10") == "<p>from $5 to $10</p>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("so $a +\n\nb$ is", r"lone \$ in line 1"),
        ("one\n\nfrom $5 on", r"page\.md: lone \$ in line 3; write \\\$"),
        ("so $$a$$ holds", "paragraph of its own"),
        ("$$a$$ holds", "paragraph of its own"),
        ("$$ a \\tag{1} = b \\tag{2} $$", "more than one"),
        ("# About $t$", "heading"),
    ],
)
def test_what_cannot_be_placed_stops_the_build(render, text, message):
    with pytest.raises(PluginError, match=message):
        render(text)


def test_what_cannot_be_read_stops_the_build(render):
    unknown = ("\\nosuchcommand x", "a & b", "\\text{a < b}", "a \\\\ b")
    for latex in ("\\frac{1}{", "x_", "\\left( x", "a } b", "x^1^2", *unknown):
        for text in (f"$$ {latex} $$", f"so ${latex}$ is"):
            with pytest.raises(PluginError, match=r"page\.md: .*LaTeX"):
                render(text)
