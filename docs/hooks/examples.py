"""Griffe extension: show the `Example:` section of a docstring as code, as griffe shows `Examples:`."""

import griffe


class SingularExample(griffe.Extension):
    """Renames the section where griffe reads docstrings; the sources keep the word that fits one example."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rename it in one object."""
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
