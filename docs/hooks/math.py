r"""MkDocs hook: mathematics as MathML, made when the site is built; pages need neither JavaScript nor a network.

Write `$x_i$` in a line of text, and `$$ ... $$` in a paragraph of its own for a displayed equation, whose number
is given by `\tag{7}`. Code is left alone; a dollar sign is written `\$`. What cannot be read stops the build.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

# Markdown must see neither LaTeX nor MathML (both are full of its signs), so an equation passes through it as one
# word: these two signs for private use around "i" or "d" (inline, display) and the LaTeX in hexadecimal digits.
_OPEN, _CLOSE = "\ue000", "\ue001"
_WORD = re.compile(
    f"(?P<paragraph><p>)?{_OPEN}(?P<kind>[id])(?P<latex>[0-9a-f]+){_CLOSE}(?(paragraph)(?P<end></p>)?)"
)

# In this order: code wins over mathematics, two dollars over one.
_PIECE = re.compile(
    r"""
    ^[ \t]*(?P<fence>`{3,}|~{3,}).*?^[ \t]*(?P=fence)[ \t]*$  # a fenced block
    | (?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)              # code in a line
    | \\\$                                                    # a dollar sign
    | \$\$(?P<display>[^$]+)\$\$
    | \$(?P<inline>(?!\s)(?:[^$\n]|\n(?!\s*\n))+(?<!\s))\$    # may cross a line, not a paragraph
    | \$
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_TAG = re.compile(r"\\tag\{([^{}]+)\}")
# latex2mathml passes on commands and braces it does not know; browsers have no line breaks in an equation.
_UNKNOWN = re.compile(r"\\\w*|[{}]|linebreak")
_HEADING = re.compile(rf"^#.*{_OPEN}.*$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Replace every equation of a page by a word that Markdown leaves alone."""

    def replace(found: re.Match[str]) -> str:
        whole = found[0]
        if whole == r"\$":
            return "$"
        if whole == "$":
            line = markdown.count("\n", 0, found.start()) + 1
            raise PluginError(f"{_place(page)}: lone $ in line {line}; write \\$ for a dollar sign")
        for kind in ("display", "inline"):
            if latex := found[kind]:
                return f"{_OPEN}{kind[0]}{latex.strip().encode().hex()}{_CLOSE}"
        return whole

    replaced = _PIECE.sub(replace, markdown)
    if _HEADING.search(replaced):
        raise PluginError(f"{_place(page)}: mathematics in a heading would spoil its anchor; use plain text there")
    return replaced


def on_page_content(content: str, page: Page, **_: object) -> str:
    """Put MathML in the places of those words."""

    def replace(found: re.Match[str]) -> str:
        latex = bytes.fromhex(found["latex"]).decode()
        if found["kind"] == "i":
            return (found["paragraph"] or "") + mathml(latex, _place(page)) + (found["end"] or "")
        if not found["end"]:
            raise PluginError(f"{_place(page)}: $${latex}$$ must stand in a paragraph of its own")
        return equation(latex, _place(page))

    return _WORD.sub(replace, content)


def equation(latex: str, place: str) -> str:
    r"""A displayed equation with the number of its `\tag{}`, if it has one."""
    tags = _TAG.findall(latex)
    if len(tags) > 1:
        raise PluginError(f"{place}: more than one \\tag in {latex!r}")
    number = f'<span class="equation-number">({html.escape(tags[0])})</span>' if tags else ""
    body = mathml(_TAG.sub("", latex), place, display="block")
    return f'<div class="equation"><div class="equation-body">{body}</div>{number}</div>'


def mathml(latex: str, place: str, display: str = "inline") -> str:
    """MathML of some LaTeX; `place` is for the error message."""
    try:
        result = convert(latex, display=display)
        ElementTree.fromstring(result)  # it also passes on bare & and <
    except Exception as error:  # latex2mathml's errors have no common base
        reason = re.sub(r"Error$", "", type(error).__name__)
        raise PluginError(f"{place}: cannot read the LaTeX {latex!r}: {reason}") from error
    if unknown := _UNKNOWN.findall(result):
        raise PluginError(f"{place}: {unknown[0]!r} in the LaTeX {latex!r} cannot be shown")
    return result


def _place(page: Page) -> str:
    return page.file.src_uri
