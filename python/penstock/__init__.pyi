# Written by scripts/python_stubs.py; change the declarations there and in src/ops, not this file.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeVar, Union, overload

Path = Union[str, bytes, PathLike[str], PathLike[bytes]]
Size = Union[int, str, tuple[int, int]]
Numbers = Union[float, str, Sequence[float]]
FieldSpec = Union[str, tuple[str, Sequence[int | None]], "Spec"]

_Step = TypeVar("_Step", bound=Callable[..., Any])

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
    def item(self) -> Any: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...
    def __float__(self) -> float: ...
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
    @property
    def _has_batches(self) -> bool: ...
    def map(self, function: Callable[..., Any], num_parallel_calls: int | None = None, *, per: Literal["sample", "batch"] | None = None,
            workers: Literal["thread", "process"] = "thread", spec: Mapping[str, FieldSpec] | None = None) -> Dataset: ...
    def zip(self, *others: Dataset) -> Dataset: ...
    def concatenate(self, *others: Dataset) -> Dataset: ...
    def decode_raw(self, dtype: str = "uint8", shape: Sequence[int | None] = (None,), field: str = "image") -> Dataset: ...
    def with_options(self, *, seed: int = ..., workers: int = ..., prefetch: int = ..., ram: int = ..., rank: int = ..., world: int = ..., hosts: int = ...,
                     uneven: Literal["pad", "drop", "allow"] = ..., bad: str = ..., verify: bool = ..., cache_dir: str | PathLike[str] = ...,
                     fuse: bool = ...) -> Dataset: ...
    def distributed(self, rank: int | None = None, world: int | None = None, uneven: str = "pad", hosts: int | Literal["auto"] = 1) -> Dataset: ...
    def plan(self) -> str: ...
    def stats(self) -> dict[str, Any]: ...
    def at(self, k: int, epoch: int = 0) -> Batch: ...
    def state_dict(self) -> dict[str, int | str]: ...
    def load_state_dict(self, state: Mapping[str, int | str]) -> None: ...
    def cancel(self) -> None: ...
    def close(self, timeout: float = 5.0) -> None: ...
    def shuffle(self, buffer: int | str = 0, window: int | str = 0, seed: int = -1, reshuffle: bool = True, *, buffer_size: int
            | str | None = None) -> Dataset:
        """Puts the elements in random order."""
    def repeat(self, count: int = -1) -> Dataset:
        """Repeats the elements within one epoch."""
    def take(self, count: int) -> Dataset:
        """Keeps the first elements and leaves out the others."""
    def skip(self, count: int) -> Dataset:
        """Leaves out the first elements."""
    def shard(self, count: int, index: int) -> Dataset:
        """Keeps every count-th element, starting with element index."""
    def unique(self, *fields: Path | Sequence[Path]) -> Dataset:
        """Leaves out elements that came before in this epoch."""
    def filter(self, expr: str | PathLike[str] | Sequence[str | float]) -> Dataset:
        """Keeps the elements for which an expression is true, and leaves out the others."""
    def resample(self, field: str | PathLike[str] | Sequence[str | float] = 'label', target: str | PathLike[str] | Sequence[str
            | float] = '', length: int = 0, seed: int = -1) -> Dataset:
        """Draws the elements such that every class has its share: rare classes come more often, frequent ones less often."""
    def snapshot(self, path: str | PathLike[str] | Sequence[str | float], bytes: int | str = '64M') -> Dataset:
        """Computes the elements before it once, writes them to shards in a folder, and reads these from then on: in later epochs, in later runs and in other processes."""
    def example(self, schema: str | PathLike[str] | Sequence[str | float] = '', field: str | PathLike[str] | Sequence[str |
            float] = 'record', lists: str | PathLike[str] | Sequence[str | float] = '') -> Dataset:
        """Parses tf.train.Examples and SequenceExamples: every feature of the schema becomes a field of float32, int64 or bytes."""
    def select(self, *fields: Path | Sequence[Path]) -> Dataset:
        """Keeps the named fields and removes the others."""
    def drop(self, *fields: Path | Sequence[Path]) -> Dataset:
        """Removes the named fields and keeps the others."""
    def rename(self, from_: str | PathLike[str] | Sequence[str | float], to: str | PathLike[str] | Sequence[str |
            float]) -> Dataset:
        """Renames a field."""
    def one_hot(self, classes: int, field: str | PathLike[str] | Sequence[str | float] = 'label') -> Dataset:
        """Converts class numbers to float32 vectors that are 1 at the class and 0 elsewhere."""
    def cast(self, dtype: Literal['u8', 'i32', 'i64', 'f16', 'bf16', 'f32', 'f64'], field: str | PathLike[str] | Sequence[str |
            float] = 'image') -> Dataset:
        """Converts a field of numbers to another type; values are not scaled."""
    def stack(self, *fields: Path | Sequence[Path], name: str | PathLike[str] | Sequence[str | float] = 'features', dtype:
            Literal['auto', 'u8', 'i32', 'i64', 'f16', 'bf16', 'f32', 'f64'] = 'auto') -> Dataset:
        """Combines several fields of numbers, such as the columns of a table, into one vector."""
    def decode(self, field: str | PathLike[str] | Sequence[str | float] = 'image', format: Literal['auto', 'raw'] = 'auto',
            shape: str | PathLike[str] | Sequence[str | float] = '', channels: int = 3, exif: bool = False, recover: bool =
            False, max_pixels: int = 268435456, max_scans: int = 500, quality: Literal['auto', 'exact', 'fast', 'tensorflow'] =
            'auto') -> Dataset:
        """Decodes images to uint8 [height,width,channels]: JPEG, PNG, WebP, BMP, GIF (first frame) and yuv420, detected by their content."""
    def resize(self, size: Size = 0, method: Literal['antialias', 'bilinear', 'bicubic', 'nearest', 'area', 'keyscubic',
            'lanczos3', 'lanczos5', 'gaussian', 'mitchellcubic'] = 'antialias', short: int = 0, fit: Literal['stretch', 'crop',
            'pad'] = 'stretch', field: str | PathLike[str] | Sequence[str | float] = 'image') -> Dataset:
        """Resizes an image to a square, to width x height, or to a given length of its shorter side."""
    def crop(self, x: int, y: int, width: int, height: int, field: str | PathLike[str] | Sequence[str | float] =
            'image') -> Dataset:
        """Crops a fixed rectangle."""
    def center_crop(self, size: Size, field: str | PathLike[str] | Sequence[str | float] = 'image') -> Dataset:
        """Crops the centre of an image, as torchvision's CenterCrop does."""
    def random_crop(self, size: Size, padding: int = 0, field: str | PathLike[str] | Sequence[str | float] =
            'image') -> Dataset:
        """Crops a rectangle of fixed size at a random position, as torchvision's RandomCrop does."""
    def random_resized_crop(self, size: Size, scale: Numbers = (0.08, 1.0), ratio: Numbers = (0.75, 1.3333333333333333), method:
            Literal['antialias', 'bilinear', 'bicubic', 'nearest', 'area'] = 'antialias', field: str | PathLike[str] |
            Sequence[str | float] = 'image') -> Dataset:
        """Crops a rectangle of random area, aspect ratio and position and resizes it; every epoch has new rectangles."""
    def flip(self, p: float = 0.5, field: str | PathLike[str] | Sequence[str | float] = 'image') -> Dataset:
        """Mirrors an image left to right with probability p."""
    def normalize(self, range: Literal['0..1', '-1..1', 'imagenet'] = '0..1', mean: Numbers = '', std: Numbers = '', field: str
            | PathLike[str] | Sequence[str | float] = 'image') -> Dataset:
        """Converts the levels of an image, which are from 0 to 255, to float32: (level / 255 - mean) / std, computed as one multiplication and one addition."""
    def layout(self, order: Literal['nchw', 'nhwc'], field: str | PathLike[str] | Sequence[str | float] = 'image') -> Dataset:
        """Moves the channels of an image first (nchw) or last (nhwc); N is the batch dimension, which batch adds."""
    def enumerate(self, field: str | PathLike[str] | Sequence[str | float] = 'index', start: int = 0) -> Dataset:
        """Adds the position of each element as an int64 field: 0 for the first element that comes, whatever its place in the data, 1 for the second."""
    def expr(self, expr: str | PathLike[str] | Sequence[str | float], field: str | PathLike[str] | Sequence[str | float], dtype:
            Literal['auto', 'u8', 'i32', 'i64', 'f16', 'bf16', 'f32', 'f64'] = 'auto') -> Dataset:
        """Computes a field from others with an expression: + - * / // % **, comparisons, and, or, not, `in (1, 2)`, `match "n0*"` (with * ? [ ]), and the functions abs, sqrt, exp, log, floor, ceil, round, int, float, min, max, and over all values of a field len, sum, mean, min, max, any, all."""
    def scale(self, factor: float, offset: float = 0.0, field: str | PathLike[str] | Sequence[str | float] = 'image', dtype:
            Literal['f16', 'bf16', 'f32', 'f64'] = 'f32') -> Dataset:
        """Multiplies the numbers of a field by a factor and adds an offset, as Keras' Rescaling does."""
    def cache(self, bytes: int | str = 0, path: str | PathLike[str] | Sequence[str | float] = '') -> Dataset:
        """Keeps elements in memory, or on disk (path=), as they are at this place in the chain, so that later epochs do not read or compute them again."""
    def batch(self, size: int, drop_remainder: bool = False) -> Dataset:
        """Combines elements into batches: each field becomes one tensor whose first dimension is the batch."""
    def prefetch(self, depth: int = -1, *, buffer_size: int | str | None = None) -> Dataset:
        """Sets how many batches are prepared before they are requested."""
    def padded_batch(self, size: int, multiple: int = 1, length: int = 0, value: float = 0.0, values: str | PathLike[str] |
            Sequence[str | float] = '', drop_remainder: bool = False) -> Dataset:
        """Combines elements of different shapes into batches: every dimension that varies is filled up at its end to that of the largest element of the batch."""
    def rebatch(self, size: int, drop_remainder: bool = False) -> Dataset:
        """Combines the elements of the batches before it into batches of another size, as unbatch and batch together."""
    def unbatch(self) -> Dataset:
        """Takes batches apart into elements."""
    def window(self, size: int, shift: int = 0, stride: int = 1, drop_remainder: bool = False) -> Dataset:
        """Combines neighbouring elements into one: each field becomes a stack with a new first dimension, as window and batch of tf.data together."""
    def bucket(self, field: str | PathLike[str] | Sequence[str | float], boundaries: str | PathLike[str] | Sequence[str | float]
            = '', sizes: str | PathLike[str] | Sequence[str | float] = '', tokens: int = 0, most: int = 1024, pad: bool = True,
            pad_to_boundary: bool = False, multiple: int = 1, value: float = 0.0, values: str | PathLike[str] | Sequence[str |
            float] = '', drop_remainder: bool = False) -> Dataset:
        """Combines elements of similar length into batches, so that little is filled up: bucket_by_sequence_length of tf.data, or a budget of values per batch."""
    def group(self, field: str | PathLike[str] | Sequence[str | float], size: int, drop_remainder: bool = False) -> Dataset:
        """Combines elements with the same value of a field into batches, as group_by_window of tf.data with batch."""
    def ragged_batch(self, size: int, drop_remainder: bool = False) -> Dataset:
        """Combines elements of different shapes into batches without filling anything up: the values of all elements one after the other, and row splits that say where each element begins, as tf.RaggedTensor and torch.nested take them."""

class Layers:
    """A chain of layers. Every layer is a method, which returns a longer chain."""
    def __init__(self, text: str | Layers = "") -> None: ...
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...
    def conv(self, filters: int, size: int, activation: Literal['none', 'relu', 'relu6', 'leaky', 'gelu', 'silu', 'sigmoid',
            'tanh', 'softmax'] = 'none', *, stride: int = 1, pad: int | str = 'valid', dilation: int = 1, groups: int = 1, bias:
            bool = True, name: str = '') -> Layers:
        """Two-dimensional convolution with `filters` kernels of `size` × `size`."""
    def dwconv(self, size: int, activation: Literal['none', 'relu', 'relu6', 'leaky', 'gelu', 'silu', 'sigmoid', 'tanh',
            'softmax'] = 'none', *, stride: int = 1, pad: int | str = 'valid', dilation: int = 1, bias: bool = True, name: str =
            '') -> Layers:
        """Depthwise convolution: one kernel of `size` × `size` per channel."""
    def sepconv(self, filters: int, size: int, activation: Literal['none', 'relu', 'relu6', 'leaky', 'gelu', 'silu', 'sigmoid',
            'tanh', 'softmax'] = 'none', *, stride: int = 1, pad: int | str = 'valid', bias: bool = True, name: str =
            '') -> Layers:
        """Separable convolution: a depthwise convolution, then a 1×1 convolution to `filters` channels."""
    def dense(self, units: int, activation: Literal['none', 'relu', 'relu6', 'leaky', 'gelu', 'silu', 'sigmoid', 'tanh',
            'softmax'] = 'none', *, bias: bool = True, name: str = '') -> Layers:
        """Fully connected layer with `units` results."""
    def batchnorm(self, *, eps: float = 0.001, momentum: float = 0.99, name: str = '') -> Layers:
        """Normalises every channel over the batch; predictions use the moving statistics."""
    def layernorm(self, *, eps: float = 0.001, name: str = '') -> Layers:
        """Normalises the channels of every pixel, or the values of a vector."""
    def relu(self, *, name: str = '') -> Layers:
        """max(x, 0)."""
    def relu6(self, *, name: str = '') -> Layers:
        """min(max(x, 0), 6)."""
    def leaky(self, slope: float = 0.3, *, name: str = '') -> Layers:
        """x above zero, slope · x below."""
    def gelu(self, *, name: str = '') -> Layers:
        """x · Φ(x), with the exact normal distribution."""
    def silu(self, *, name: str = '') -> Layers:
        """x · sigmoid(x), also called swish."""
    def sigmoid(self, *, name: str = '') -> Layers:
        """1 / (1 + exp(−x))."""
    def tanh(self, *, name: str = '') -> Layers:
        """Hyperbolic tangent."""
    def softmax(self, *, name: str = '') -> Layers:
        """Probabilities that sum to one over the channels."""
    def maxpool(self, size: int, *, stride: int = 0, pad: int | str = 'valid', name: str = '') -> Layers:
        """Maximum over windows of `size` × `size`."""
    def avgpool(self, size: int, *, stride: int = 0, pad: int | str = 'valid', name: str = '') -> Layers:
        """Mean over windows of `size` × `size`."""
    def globalavgpool(self, *, name: str = '') -> Layers:
        """Mean of every channel over the whole image; the result is a vector."""
    def dropout(self, share: float, *, name: str = '') -> Layers:
        """Sets a share of the values to zero while training."""
    def flatten(self, *, name: str = '') -> Layers:
        """The image as a vector, in the order height, width, channel."""
    def residual(self, *chains: Layers | str, activation: Literal['none', 'relu', 'relu6', 'leaky', 'gelu', 'silu', 'sigmoid',
            'tanh', 'softmax'] = 'none', name: str = '') -> Layers:
        """The sum of a branch and a shortcut, both in parentheses and neither of them empty."""
    def concat(self, *chains: Layers | str, name: str = '') -> Layers:
        """The results of several chains side by side along the channels."""
    def add(self, *chains: Layers | str, name: str = '') -> Layers:
        """The sum of the results of several chains."""
    def repeat(self, times: int, *chains: Layers | str) -> Layers:
        """A chain several times in a row, each time with parameters of its own."""
    def fakequant(self, *, weight_bits: int = 7, name: str = '') -> Layers:
        """Rounds values to the 256 levels of a range, as 8-bit inference stores them; the gradient passes within the range."""

layers: Layers

class Weights(Mapping[str, Any]):
    """Parameters by name. Reading makes a copy; weights["dense_1/bias"] = array changes the model."""
    def __getitem__(self, name: str) -> Any: ...
    def __setitem__(self, name: str, values: Any) -> None: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def update(self, values: Mapping[str, Any]) -> None: ...

class Model:
    """A model as text, with its weights and optimiser."""
    class_names: list[str] | None
    def __init__(self, text: str | Layers, input: Sequence[int], *, seed: int = 0, threads: int = 0,
                 loss: Literal["auto", "sparse", "categorical", "binary", "mse"] = "auto",
                 optimizer: Literal["adam", "adamw", "sgd", "nesterov", "lion"] = "adam", learning_rate: float = 1e-3,
                 schedule: Literal["constant", "step", "cosine", "one_cycle", "plateau"] = "constant", label_smoothing: float = 0.0,
                 momentum: float = 0.0, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-7, weight_decay: float | None = None,
                 clip_norm: float = 0.0, clip_value: float = 0.0, ema: float = 0.0, warmup_steps: int = 0, total_steps: int = 0,
                 schedule_every: int = 1000, gamma: float = 0.1, min_rate: float = 0.0, plateau_patience: int = 5,
                 freeze: str | Sequence[str] = (), accumulate: int = 1, temperature: float = 3.0, alpha: float = 0.5,
                 mixed: Literal["none", "float16", "bfloat16"] = "none", recompute: bool = False,
                 portable: bool = False) -> None: ...
    @classmethod
    def load(cls, path: Path, *, checkpoint: str | int | None = None, **options: Any) -> Model: ...
    def load_weights(self, path: Path) -> Model: ...
    @property
    def text(self) -> str: ...
    @property
    def input(self) -> tuple[int, ...]: ...
    @property
    def output(self) -> tuple[int, ...]: ...
    @property
    def steps(self) -> int: ...
    @property
    def weights(self) -> Weights: ...
    @property
    def loss_scale(self) -> float: ...
    @property
    def trainable_variables(self) -> list[Any]: ...
    def __call__(self, images: Any) -> Any: ...
    def summary(self, batch: int = 64) -> str: ...
    def train_step(self, images: Any, labels: Any, weights: Any = None, *, teacher: Any = None, apply: bool = True) -> float: ...
    def gradients(self) -> dict[str, Any]: ...
    def apply(self, gradients: Mapping[str, Any] | None = None) -> None: ...
    def fit(self, dataset: Iterable[Any], epochs: int = 1, *, validation: Iterable[Any] | None = None, callbacks: Sequence[Any] = (),
            fields: tuple[str, str] | None = None, class_weight: Mapping[int, float] | None = None,
            teacher: Any = None) -> list[dict[str, Any]]: ...
    def evaluate(self, dataset: Iterable[Any], *, fields: tuple[str, str] | None = None) -> dict[str, Any]: ...
    def predict(self, samples: Any, *, probabilities: bool = False, fields: tuple[str, str] | None = None) -> Any: ...
    def logits(self, samples: Any) -> Any: ...
    def save(self, path: Path) -> None: ...

class GradientTape:
    """Gradients of a loss in the words of TensorFlow."""
    def __enter__(self) -> GradientTape: ...
    def __exit__(self, *failure: Any) -> None: ...
    def gradient(self, loss: Any, variables: Iterable[Any]) -> list[Any]: ...

@overload
def function(step: _Step, **options: Any) -> _Step: ...
@overload
def function(step: None = None, **options: Any) -> Callable[[_Step], _Step]: ...

losses: Any
optimizers: Any

def tfrecord(*paths: Path | Sequence[Path], io: Literal['auto', 'map', 'read', 'direct'] = 'auto', max_record: int | str =
        '1GiB', missing: Literal['error', 'allow'] = 'error') -> Dataset:
    """The records of TFRecord files, one element per record, in the field record."""
def folder(path: str | PathLike[str] | Sequence[str | float], labels: Literal['inferred', 'none'] = 'inferred', extensions: str
        | PathLike[str] | Sequence[str | float] = 'jpg,jpeg,png,bmp,gif,webp', validation_split: float = 0.0, subset:
        Literal['all', 'training', 'validation'] = 'all', seed: int = 0) -> Dataset:
    """The files in class folders, one element per file."""
def files(list: str | PathLike[str] | Sequence[str | float], root: str | PathLike[str] | Sequence[str | float] = '') -> Dataset:
    """The files named in a list, one element per file."""
def npy(*paths: Path | Sequence[Path], io: Literal['auto', 'map', 'read'] = 'auto') -> Dataset:
    """Rows of NumPy arrays: one field per file, named after the file without .npy, and one element per row."""
def range(start: int = 0, stop: int = -9223372036854775808, step: int = 1) -> Dataset:
    """Whole numbers from start up to, but not including, stop, in the field value."""
def lines(*paths: Path | Sequence[Path], skip_empty: bool = False, io: Literal['auto', 'map', 'read'] = 'auto', max_record: int
        | str = '64MiB') -> Dataset:
    """The lines of text files, without their ends (LF or CRLF), in the field line."""
def records(*paths: Path | Sequence[Path], bytes: int | str = 0, header: int | str = 0, footer: int | str = 0, io:
        Literal['auto', 'map', 'read'] = 'auto') -> Dataset:
    """Records of one fixed length, as bytes in the field record."""
def csv(*paths: Path | Sequence[Path], columns: str | PathLike[str] | Sequence[str | float] = '', delimiter: str | PathLike[str]
        | Sequence[str | float] = 'auto', header: bool = True, na: str | PathLike[str] | Sequence[str | float] = '', io:
        Literal['auto', 'map', 'read'] = 'auto', max_record: int | str = '64MiB') -> Dataset:
    """The rows of tables as text, one field per column."""
def tar(*paths: Path | Sequence[Path], fields: str | PathLike[str] | Sequence[str | float] = '', io: Literal['auto', 'map',
        'read'] = 'auto', max_record: int | str = '1GiB') -> Dataset:
    """The samples of tar archives as WebDataset writes them: consecutive members that share a name up to its first dot, one field per extension."""
def tokens(*paths: Path | Sequence[Path], n: int = 1024, stride: int = 0, next: str | PathLike[str] | Sequence[str | float] =
        '', dtype: Literal['auto', 'uint8', 'uint16', 'uint32', 'int32', 'int64'] = 'auto', to: Literal['int64', 'int32'] =
        'int64', io: Literal['auto', 'map', 'read'] = 'auto') -> Dataset:
    """Windows of n tokens from mapped arrays, in the field tokens: what language models train on."""
def hdf5(*paths: Path | Sequence[Path], io: Literal['auto', 'map', 'read'] = 'auto') -> Dataset:
    """Rows of HDF5 datasets: one field per dataset, and one element per row."""
def pipeline(text: str, *, seed: int = ..., workers: int = ..., prefetch: int = ..., ram: int = ..., rank: int = ..., world: int = ..., hosts: int = ...,
             uneven: Literal["pad", "drop", "allow"] = ..., bad: str = ..., verify: bool = ..., cache_dir: str | PathLike[str] = ...,
             fuse: bool = ...) -> Dataset: ...
def zip(*datasets: Dataset) -> Dataset: ...
def concatenate(*datasets: Dataset) -> Dataset: ...
def sample(datasets: Iterable[Dataset], weights: Iterable[float] | None = None, seed: int = -1,
           stop: Literal["first", "all"] = "first") -> Dataset: ...
def choose(datasets: Iterable[Dataset], choices: Iterable[int] | Dataset, field: str | None = None,
           stop: Literal["first", "all"] = "first") -> Dataset: ...
def interleave(datasets: Iterable[Dataset] | Dataset, cycle: int = 0, block: int = 1, files: str | None = None,
               num_parallel_calls: int | None = None) -> Dataset: ...
def from_arrays(arrays: Any, names: Sequence[str] | None = None) -> Dataset: ...
def from_files(paths: Sequence[Path], labels: Sequence[Any] | None = None) -> Dataset: ...
def from_generator(function: Callable[[], Iterable[Any]], spec: Mapping[str, FieldSpec] | None = None) -> Dataset: ...
def load_plugin(path: Path) -> tuple[str, str]: ...
def configure_store(*, endpoint: str | None = None, region: str | None = None, access_key: str | None = None, secret_key: str | None = None,
                    session_token: str | None = None, virtual_host: bool = False, cache: Path | None = None, cache_bytes: int = 0,
                    evict: Literal["lru"] | None = None, connections: int = 0, memory_bytes: int = 0, ca_file: Path | None = None) -> None: ...
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

class Answer:
    """The doctor's answer: print it, to_dict() for its JSON, save("report.html") for the page."""
    @property
    def verdict(self) -> dict[str, Any]: ...
    @property
    def remedies(self) -> list[dict[str, Any]]: ...
    def to_dict(self) -> dict[str, Any]: ...
    def html(self) -> str: ...
    def save(self, path: Path, overwrite: bool = True) -> None: ...

def doctor(loader: Iterable[Any], step: Callable[[Any], Any] | None = None, data: Path | None = None, *, seconds: float = 12.0,
           epochs: int | None = None, samples: int | None = None, verify: bool = True, wish: float | None = None, link: float | None = None,
           memory: float | None = None) -> Answer:
    """Says why training is slow, and what each remedy would bring."""

class Compressed:
    """What compress tried and what came out; prints as a table."""
    variants: list[dict[str, Any]]
    layers: list[dict[str, Any]]
    chosen: int
    stopped: bool
    path: str | None
    def load(self, **options: Any) -> Model: ...

def compress(model: Path | Model, out: Path | None = None, *, prune: float | str = 0.0, structured: bool = False, flops: float = 0.0, norm: str = "l1",
             exclude: str | Iterable[str] = (), quantize: str | None = None, bits: float | None = None, qat: bool = False, calibration: str = "auto",
             percentile: float | None = None, calibration_samples: int | None = None, weight_bits: int | None = None, search: bool = False,
             search_seconds: float = 300.0, target_accuracy: float | None = None, data: Dataset | str | None = None, validation: Dataset | str | None = None, epochs: int = 2,
             steps_per_epoch: int = 0, learning_rate: float = 3e-4, seed: int = 0, threads: int = 0, fields: tuple[str, str] | None = None,
             checkpoint: str | int | None = None, save_every: int = 0, html: Path | None = None,
             progress: Callable[[str, dict[str, Any]], object] | None = None) -> Compressed:
    """Makes a model smaller and faster, in steps: channels, zeros, integers."""

def pack(sources: Path | Iterable[Path], out: Path, *, source_format: str | None = None, name: str | None = None, version: str | None = None,
         features: str | None = None, shards: int = 0, shard_size: int = 0, split: str | Mapping[str, float] | None = None,
         shuffle: bool = False, seed: int = 0, compression: str | None = "none", resize: int | str | None = None,
         format: str | None = None, quality: int = 0, channels: int = 0, augment: int = 0, workers: int = 0, bad: str = "error",
         force: bool = False, sync: bool = True, entropy: bool = False,
         progress: Callable[[str, int, int, int], object] | None = None, part: tuple[int, int] | None = None,
         join: bool = False) -> dict[str, Any]: ...
