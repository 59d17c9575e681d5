"""Docstrings as Griffe reads them, which makes the API pages of the site from the sources.

Griffe knows the section ``Examples``, and takes our ``Example`` for a paragraph. And it cannot know that
``@takes(Options)`` gives a function the fields of a dataclass as arguments.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_OPTIONS = re.compile(r"takes\((\w+)\)")
_LITERAL = re.compile(r"^::\n", re.MULTILINE)  # what reStructuredText has before a drawing; Markdown needs nothing


class SiteDocstrings(griffe.Extension):
    """What the docstrings say, in the words that Griffe knows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each object with its docstring."""
        if obj.docstring is not None:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = _LITERAL.sub("", text)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called when everything was read."""
        loader = pkg["loader.loader.Loader"]
        found = [match[1] for d in loader["__init__"].decorators if (match := _OPTIONS.search(str(d.value)))]
        for name in found:
            _spread(loader["__init__"], pkg["loader.options"][name])


def _spread(function: griffe.Function, options: griffe.Class) -> None:
    """Put the fields of a dataclass in the place of the last parameter."""
    kind = griffe.ParameterKind.positional_or_keyword
    del function.parameters[len(function.parameters) - 1]
    for name, member in options.attributes.items():
        if name == "_":
            kind = griffe.ParameterKind.keyword_only
        elif not name.startswith("_") and "instance-attribute" in member.labels:
            parameter = griffe.Parameter(name, annotation=member.annotation, kind=kind, default=member.value)
            function.parameters.add(parameter)
