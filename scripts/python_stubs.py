#!/usr/bin/env python3
"""Prints penstock/__init__.pyi: what type checkers and editors see. The methods come from the operation table, the rest stands
here.

PYTHONPATH=BUILD/python python3 scripts/python_stubs.py >python/penstock/__init__.pyi
"""

import textwrap

from penstock import _fluent

HEAD = '''\
# Written by scripts/python_stubs.py; change the declarations there and in src/ops, not this file.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, NamedTuple, Union, overload

Path = Union[str, bytes, PathLike[str], PathLike[bytes]]
Size = Union[int, str, tuple[int, int]]
Numbers = Union[float, str, Sequence[float]]
FieldSpec = Union[str, tuple[str, Sequence[int | None]], "Spec"]

__version__: str
AUTOTUNE: int

class Error(Exception):
    """What failed, where, and what to try."""
    status: str
    path: str | None
    op: str | None
    record: int | None
    offset: int | None
    errno: int | None
    batch: int | None
    places: list[tuple[str | None, int | None, int | None]] | None

class Skip(Exception):
    """Raised by a function of map to leave the sample out (for batches: the whole batch)."""

class Spec(NamedTuple):
    """Shape and type of a field; None where a dimension varies."""
    shape: tuple[int | None, ...]
    dtype: str

class Tensor:
    """The data of one field. numpy.asarray, torch.from_dlpack, jax.numpy.from_dlpack and memoryview take it without a copy."""
    @property
    def shape(self) -> tuple[int | None, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def ndim(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def row_splits(self) -> Tensor | None: ...
    @property
    def values(self) -> Tensor: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def numpy(self) -> Any: ...
    def tolist(self) -> Any: ...
    def data_ptr(self) -> int: ...

class Batch:
    """Named tensors. batch["image"], dict(batch), **batch; and unpacked in order: image, label = batch."""
    @property
    def size(self) -> int: ...
    def keys(self) -> tuple[str, ...]: ...
    def values(self) -> tuple[Tensor, ...]: ...
    def items(self) -> tuple[tuple[str, Tensor], ...]: ...
    def get(self, name: str, default: Any = None, /) -> Any: ...
    def __getitem__(self, key: str | int) -> Tensor: ...
    def __contains__(self, name: object) -> bool: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __len__(self) -> int: ...
'''

DATASET = '''\
class Dataset:
    """A chain of operations. Iterate over it for the batches of an epoch."""
    class_names: list[str] | None
    file_paths: list[str] | None
    def __iter__(self) -> Iterator[Batch]: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Dataset: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None: ...
    @property
    def element_spec(self) -> dict[str, Spec]: ...
    def map(self, function: Callable[..., Any], num_parallel_calls: int | None = None, *, per: Literal["sample", "batch"] | None = None,
            workers: Literal["thread", "process"] = "thread", spec: Mapping[str, FieldSpec] | None = None) -> Dataset: ...
    def decode_raw(self, dtype: str = "uint8", shape: Sequence[int | None] = (None,), field: str = "image") -> Dataset: ...
    def with_options(self, *, seed: int = ..., workers: int = ..., prefetch: int = ..., ram: int = ..., rank: int = ..., world: int = ...,
                     uneven: Literal["pad", "drop", "allow"] = ..., bad: str = ..., verify: bool = ..., cache_dir: str | PathLike[str] = ...,
                     fuse: bool = ...) -> Dataset: ...
    def distributed(self, rank: int | None = None, world: int | None = None, uneven: str = "pad") -> Dataset: ...
    def plan(self) -> str: ...
    def stats(self) -> dict[str, Any]: ...
    def state_dict(self) -> dict[str, int]: ...
    def load_state_dict(self, state: Mapping[str, int]) -> None: ...
    def cancel(self) -> None: ...
    def close(self, timeout: float = 5.0) -> None: ...
'''

TAIL = '''\
def pipeline(text: str, *, seed: int = ..., workers: int = ..., prefetch: int = ..., ram: int = ..., rank: int = ..., world: int = ...,
             uneven: Literal["pad", "drop", "allow"] = ..., bad: str = ..., verify: bool = ..., cache_dir: str | PathLike[str] = ...,
             fuse: bool = ...) -> Dataset: ...
def from_arrays(arrays: Any, names: Sequence[str] | None = None) -> Dataset: ...
def from_files(paths: Sequence[Path], labels: Sequence[Any] | None = None) -> Dataset: ...
def from_generator(function: Callable[[], Iterable[Any]], spec: Mapping[str, FieldSpec] | None = None) -> Dataset: ...
@overload
def image_dataset_from_directory(
    directory: Path, labels: Literal["inferred"] | Sequence[int] | None = "inferred",
    label_mode: Literal["int", "categorical", "binary"] | None = "int",
    class_names: Sequence[str] | None = None, color_mode: Literal["grayscale", "rgb", "rgba"] = "rgb", batch_size: int | None = 32,
    image_size: int | tuple[int, int] = (256, 256), shuffle: bool = True, seed: int | None = None, validation_split: float | None = None,
    subset: Literal["training", "validation"] | None = None, interpolation: str = "bilinear", follow_links: bool = False,
    crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False,
    data_format: Literal["channels_last", "channels_first"] | None = "channels_last", verbose: bool = True) -> Dataset: ...
@overload
def image_dataset_from_directory(
    directory: Path, labels: Literal["inferred"] | Sequence[int] | None = "inferred",
    label_mode: Literal["int", "categorical", "binary"] | None = "int",
    class_names: Sequence[str] | None = None, color_mode: Literal["grayscale", "rgb", "rgba"] = "rgb", batch_size: int | None = 32,
    image_size: int | tuple[int, int] = (256, 256), shuffle: bool = True, seed: int | None = None, validation_split: float | None = None,
    *, subset: Literal["both"], interpolation: str = "bilinear", follow_links: bool = False,
    crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False,
    data_format: Literal["channels_last", "channels_first"] | None = "channels_last", verbose: bool = True) -> list[Dataset]: ...

class TFRecordWriter:
    """Writes a TFRecord file and its index; nothing appears under the path before it is closed."""
    def __init__(self, path: Path, compression: str | None = "none", *, level: int = 0, sync: bool = True, index: bool = True,
                 overwrite: bool = False) -> None: ...
    def write(self, record: bytes | bytearray | memoryview | Example) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> TFRecordWriter: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None: ...

class TFRecordReader(Sequence[bytes]):
    """The records of a TFRecord file: reader[17], len(reader), and in order."""
    def __init__(self, path: Path, *, compression: str = "auto", verify: bool = True, cache_dir: str | PathLike[str] | None = None) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __iter__(self) -> Iterator[bytes]: ...

class Example(dict[str, Any]):
    """A tf.train.Example: names of features and their values."""
    def serialize(self) -> bytes: ...
    @classmethod
    def parse(cls, record: bytes | bytearray | memoryview) -> Example: ...

def pack(sources: Path | Iterable[Path], out: Path, *, source_format: str | None = None, name: str | None = None, version: str | None = None,
         features: str | None = None, shards: int = 0, shard_size: int = 0, split: str | Mapping[str, float] | None = None,
         shuffle: bool = False, seed: int = 0, compression: str | None = "none", resize: int | str | None = None,
         format: str | None = None, quality: int = 0, channels: int = 0, augment: int = 0, workers: int = 0, bad: str = "error",
         force: bool = False, sync: bool = True, entropy: bool = False,
         progress: Callable[[str, int, int, int], object] | None = None) -> dict[str, Any]: ...
'''

TYPES = {
    "bool": "bool",
    "int": "int",
    "uint": "int",
    "float": "float",
    "string": "str | PathLike[str]",
    "bytes": "int | str",
    "amount": "int | str",
    "size2d": "Size",
    "floats": "Numbers",
}


def parameters(params):
    required, words, optional = [], [], []
    for name, kind, default, choices, _ in params:
        python = _fluent.KEYWORDS.get(name, name)
        if kind == "strings":
            words.append(f"*{python}: Path | Sequence[Path]")
            continue
        accepts = f"Literal[{', '.join(map(repr, choices))}]" if kind == "choice" else TYPES[kind]
        if default is None:
            required.append(f"{python}: {accepts}")
        else:
            optional.append(f"{python}: {accepts} = {_fluent.default_of(kind, default)!r}")
    return required + words + optional


def definition(name, params, doc, method):
    heads = (["self"] if method else []) + parameters(params)
    if method and name in _fluent.ALIASES:
        heads += ["*", f"{_fluent.ALIASES[name][0]}: int | str | None = None"]
    indent = "    " if method else ""
    text = f"{indent}def {name}({', '.join(heads)})~->~Dataset:"  # where no line may end
    lines = textwrap.wrap(text, 128, subsequent_indent=indent + "        ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("~", " ") + f'\n{indent}    """{doc.split(". ")[0].rstrip(".")}."""\n'


def main():
    methods = [definition(name, params, doc, True) for name, kind, doc, _, params in _fluent.TABLE if kind != "source"]
    sources = [
        definition(name, params, doc, False) for name, kind, doc, _, params in _fluent.TABLE if kind == "source" and params
    ]
    print(HEAD + "\n" + DATASET + "".join(methods) + "\n" + "".join(sources) + TAIL, end="")


if __name__ == "__main__":
    main()
