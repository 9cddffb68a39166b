"""Joins of datasets: zip, concatenate, sample, choose, interleave. The result is a dataset whose source is the join."""

from ._dataset import AUTOTUNE, Dataset, Join
from ._fluent import quote


def _join(name, datasets, words):
    datasets = tuple(datasets)
    options, class_names = {}, None
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise TypeError(f"{name} joins datasets, not {dataset!r}")
        if dataset._batch_maps:
            raise ValueError(f"{name} joins datasets of single elements: put map on batches after it")
        for key, value in dataset._options.items():
            if options.setdefault(key, value) != value:
                raise ValueError(f"{name}: the datasets have different options {key}={options[key]!r} and {key}={value!r}")
        class_names = class_names or dataset._class_names
    if not datasets:
        raise ValueError(f"{name} joins at least one dataset")
    text = " ".join(f"{key}={value}" for key, value in words if value is not None)
    return Dataset((Join(name, text, tuple(d._nodes for d in datasets)),), options, (), class_names)


def zip(*datasets):
    """Joins datasets side by side: an element has the fields of an element of each. Ends with the shortest.

    Example:

        ds = ps.zip(ps.tfrecord("images/").example(), ps.npy("masks.npy")).shuffle().batch(32)
    """
    return _join("zip", datasets, ())


def concatenate(*datasets):
    """Joins datasets one after the other. They must have the same fields.

    Example:

        ds = ps.concatenate(ps.range(5), ps.range(10, 15)).batch(4)
    """
    return _join("concatenate", datasets, ())


def sample(datasets, weights=None, seed=-1, stop="first"):
    """Mixes datasets at random, in proportion to the weights (None: equal shares). They must have the same fields.

        seed: of the mixture; -1: the pipeline's seed
        stop: "first": ends when the first dataset is used up; "all": when all are

    Example:

        ds = ps.sample([ps.range(70), ps.range(100, 130)], weights=[0.7, 0.3]).batch(10)
    """
    weights = None if weights is None else ",".join(repr(float(weight)) for weight in weights)
    return _join("sample", datasets, (("weights", weights), ("seed", int(seed)), ("stop", quote(stop))))


def choose(datasets, choices, field=None, stop="first"):
    """Takes the next element from the dataset that `choices` names: a list of numbers, used again and again, or a dataset with the
    numbers in the field `field`.

    Example:

        ds = ps.choose([ps.range(10), ps.range(100, 110)], [0, 1, 1]).batch(6)
    """
    if isinstance(choices, Dataset):
        return _join("choose", (choices, *datasets), (("field", quote(field or "value")), ("stop", quote(stop))))
    numbers = ",".join(str(int(number)) for number in choices)
    return _join("choose", datasets, (("list", numbers), ("stop", quote(stop))))


def interleave(datasets, cycle=0, block=1, files=None, num_parallel_calls=None):
    """Takes elements from datasets by turns, in the order of tf.data's interleave.

        cycle: datasets that take turns at a time; 0: all of them
        block: elements taken at each turn
        files: a pattern; `datasets` is then one dataset, which is used for every matching file, with its path for {}
        num_parallel_calls: None, AUTOTUNE or a number, as in tf.data; the engine always reads in parallel, in this order

    Example:

        ds = ps.interleave([ps.range(4), ps.range(10, 13), ps.range(20, 25)], cycle=2, block=2).batch(6)
    """
    if num_parallel_calls is not None and num_parallel_calls != AUTOTUNE and int(num_parallel_calls) < 1:
        raise ValueError(f"num_parallel_calls={num_parallel_calls!r}; expected None, AUTOTUNE or a number above 0")
    datasets = (datasets,) if isinstance(datasets, Dataset) else datasets
    words = (("cycle", int(cycle)), ("block", int(block)), ("files", None if files is None else quote(files)))
    return _join("interleave", datasets, words)


JOINS = {function.__name__: function for function in (zip, concatenate, sample, choose, interleave)}
for _function in JOINS.values():
    _function.__module__ = "penstock"
