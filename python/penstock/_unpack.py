"""Which fields of a batch are unpacked: `for image, label in …`."""

from __future__ import annotations

from collections.abc import Mapping


def unpacked(fields: Mapping[str, bool]) -> list[str]:
    """Returns the names that a batch unpacks to, from {name: whether it holds bytes}: all but `key`, the file name of a sample."""
    return [name for name, text in fields.items() if not (name == "key" and text)] or list(fields)
