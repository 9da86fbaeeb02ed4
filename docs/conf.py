"""Sphinx's settings for the documentation site (``make docs``); its source is what ``rpsim.app.site`` lays out."""

from __future__ import annotations

import logging
import os
import re
import tempfile

from docutils import nodes
from jupyter_client import AsyncKernelManager, KernelManager
from sphinx import addnodes

import rpsim
from rpsim.app.commands.explain import entries
from rpsim.app.site.glossary import automatic

project = "rpsim"
author = copyright = "rpsim contributors"
version = release = rpsim.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc"]
exclude_patterns = ["notebooks", "examples"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = f"rpsim {version}"
html_copy_source = False
smartquotes = False  # two hyphens begin an option
html_show_sphinx = False
templates_path: list[str] = []
html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
os.environ["PLOTLY_RENDERER"] = "notebook"  # figures as HTML that needs no network
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
# Tutorials are run by kernels on this machine: their messages need no TCP port, of which the kernel would warn.
# Their sockets have an absolute path: a kernel runs in the folder of its page, and whoever calls it does not.
KernelManager.transport.default_value = "ipc"
_SOCKETS = tempfile.TemporaryDirectory(prefix="rpsim-docs-")
AsyncKernelManager._ip_default = lambda self: f"{_SOCKETS.name}/kernel"
logging.getLogger("traitlets").setLevel(logging.WARNING)

autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
nitpicky = False

_WORDS = {word.casefold(): word for word in automatic(entries())}
_ANY = re.compile(rf"(?<![\w/.-])(?:{'|'.join(map(re.escape, automatic(entries())))})(?:s|es)?(?![\w/-]|\.\w)")
_MATHJAX = re.compile(r'<script src="https://cdnjs\.cloudflare\.com/[^"]*mathjax[^"]*"></script>')
_APART = (
    nodes.literal, nodes.reference, nodes.title, nodes.literal_block, nodes.term, addnodes.pending_xref,
    addnodes.download_reference, addnodes.desc_signature, nodes.raw, nodes.image, nodes.caption, nodes.thead,
)  # fmt: skip


def link_first_uses(app, doctree):
    """Link the first use of every word of the glossary on a page, where the word is text and not a link already."""
    page = app.env.docname
    if page in ("glossary", "changelog", "commands") or page.startswith(("platforms/", "schemes/", "reproduction/")):
        return
    told = set()
    for text in list(doctree.findall(nodes.Text)):
        above, inside = text.parent, False
        while above is not None and not inside:
            inside, above = isinstance(above, _APART), above.parent
        if inside or text.parent is None:
            continue
        made, at, whole = [], 0, str(text)
        for found in _ANY.finditer(whole):
            word = _entry(found[0])
            if word is None or word in told:
                continue
            told.add(word)
            made.append(nodes.Text(whole[at : found.start()]))
            link = addnodes.pending_xref(
                "", nodes.inline("", found[0]), refdomain="std", reftype="term", reftarget=word, refexplicit=True,
                refwarn=True, refdoc=page,
            )  # fmt: skip
            made.append(link)
            at = found.end()
        if made:
            text.parent.replace(text, [*made, nodes.Text(whole[at:])])


def _entry(found):
    """The glossary's word that a text is, perhaps in the plural."""
    for form in (found, found.removesuffix("s"), found.removesuffix("es")):
        if form.casefold() in _WORDS:
            return _WORDS[form.casefold()]
    return None


def without_mathjax(app, page, template, context, doctree):
    """Take the script out that plotly's figures would fetch for formulas: they have none, and pages need no network."""
    if "body" in context:
        context["body"] = _MATHJAX.sub("", context["body"])


def setup(app):
    """Have first uses linked, and nothing fetched."""
    app.connect("doctree-read", link_first_uses)
    app.connect("html-page-context", without_mathjax)
