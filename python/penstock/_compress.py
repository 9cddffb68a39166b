"""penstock.compress: a smaller, faster model from a trained one."""

import os
import re
import tempfile

from . import _core
from ._dataset import Dataset, _build
from ._model import Model

COLUMNS = (("name", "model", "{}"), ("accuracy", "accuracy", "{:.4f}"), ("parameters", "parameters", "{:,}"), ("nonzero", "non-zero", "{:,}"),
           ("file_bytes", "file", "{:,} B"), ("latency1", "batch 1", "{:.3g} s"), ("latency64", "batch 64", "{:.3g} s"))


class Compressed:
    """What compress tried and what came out; prints as a table.

        variants: a dict per step: name, accepted, accuracy, loss, parameters, nonzero, file_bytes, flops, latency1, latency64 (seconds), memory
        layers: a dict per layer of the result: name, weights, nonzero, bits
        chosen: the number of the one that was kept; 0: the original, as nothing could be accepted
        path: the folder of the smaller model; None: nothing was saved
    """

    def __init__(self, result, out):
        self.variants, self.layers, self.chosen, self.stopped = (result[key] for key in ("variants", "layers", "chosen", "stopped"))
        self.path = os.path.join(out, "model") if out and self.chosen and not self.stopped else None

    def load(self, **options):
        """The smaller model, as Model.load reads it: of an int8 model, its dequantised weights. `penstock predict` runs the integers."""
        if self.path is None:
            raise ValueError("nothing was saved; give out=FOLDER")
        return Model.load(self.path, **options)

    def __str__(self):
        rows = [[title for _, title, _ in COLUMNS]]
        for i, variant in enumerate(self.variants):
            cells = [form.format(variant[key]) for key, _, form in COLUMNS]
            rows.append(cells + ["" if variant["accepted"] or i == 0 else "loses too much: not kept"])
        wide = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
        return "\n".join("  ".join([row[0].ljust(wide[0]), *(c.rjust(w) for c, w in zip(row[1:], wide[1:])), *row[len(COLUMNS):]]).rstrip() for row in rows)

    def __repr__(self):
        return f"penstock.Compressed({len(self.variants)} variants, chosen={self.chosen}, path={self.path!r})"


def _pipeline(data, what):
    """A pipeline of its own for the call; None: as the model's run recorded."""
    if data is None:
        return None
    if isinstance(data, str):
        return _core.Pipeline.parse(data)
    if not isinstance(data, Dataset):
        raise TypeError(f"{what} is a penstock.Dataset or the text of a pipeline, not {type(data).__name__}")
    if data._batch_maps:
        raise ValueError(f"{what} has functions on batches, which run in Python after the pipeline; use map before batch")
    return _build(data._nodes, data._options)


def _prune(prune, structured):
    """(operations that are left, share of zeros, kept weights, of how many) of 0.5 or "2:4"."""
    if isinstance(prune, str) and ":" in prune:
        if structured or not re.fullmatch(r"\d+:\d+", prune):
            raise ValueError(f"prune={prune!r}{' with structured=True' if structured else ''}; expected groups such as \"2:4\", whose zeros are not whole channels")
        keep, group = (int(part) for part in prune.split(":"))
        if not 0 < keep < group <= 64:
            raise ValueError(f"prune={prune!r}; of at most 64 weights a part is kept, as in \"2:4\"")
        return 0.0, 0.0, keep, group
    prune = float(prune)
    if not 0 <= prune < 1:
        raise ValueError(f"prune={prune}; expected a share below 1, or groups such as \"2:4\"")
    return (1 - prune, 0.0, 0, 0) if structured and prune else (0.0, prune, 0, 0)


def compress(
    model,
    out=None,
    *,
    prune=0.0,
    structured=False,
    flops=0.0,
    norm="l1",
    exclude=(),
    quantize=None,
    bits=None,
    qat=False,
    calibration="auto",
    percentile=None,
    calibration_samples=None,
    weight_bits=None,
    search=False,
    search_seconds=300.0,
    target_accuracy=None,
    data=None,
    validation=None,
    epochs=2,
    steps_per_epoch=0,
    learning_rate=3e-4,
    seed=0,
    threads=0,
    fields=None,
    checkpoint=None,
    save_every=0,
    html=None,
    progress=None,
):
    """Makes a model smaller and faster, in steps: channels, zeros, integers. Each step is followed by training and judged on `validation`.

        model: the folder of a run, an ONNX file, or a Model
        out: the folder for the smaller model (OUT/model) and the runs on the way; the same call continues an interrupted one
        prune: a share of weights to set to zero, or groups such as "2:4"; structured=True: whole channels go instead
        flops: remove channels until this share of the operations is left
        exclude: names of layers that keep all their weights and channels, such as "dense_*"
        quantize: "int8" computes in 8-bit integers; "weights-int8", "weights-int4", "float16", "bfloat16" store weights in fewer bits;
            "weights-mixed" finds 4, 8, 16 or 32 bits for each layer, until the mean per weight is `bits` (None: 6), if search_seconds suffices
        calibration: how quantize="int8" chooses ranges: "minmax", "percentile" (of which `percentile` is the share covered at either end), "entropy" or "mse",
            from calibration_samples samples (None: 512); weight_bits: 7 or 8 bits of the kernels (None: 7, and 8 where that loses too much)
        search: find a share of zeros for each layer; search_seconds: the time for that and for weights-mixed
        qat: train for quantize="int8" first; otherwise only where int8 loses too much
        target_accuracy: what may be lost, such as -0.005; a step that loses more is repeated with less, then left out
        data, validation: a Dataset or the text of a pipeline; None: as the run of the model recorded
        fields: names of the fields of input and target
        html: a page with accuracy against speed
        progress: called with the name of the step and a dict; if it returns True, compress saves and stops

    Example:

        print(ps.compress("runs/first", "small", quantize="int8", target_accuracy=-0.005))
    """
    if target_accuracy is not None and not -1 < target_accuracy <= 0:
        raise ValueError(f"target_accuracy={target_accuracy}; expected what may be lost, such as -0.005")
    if (calibration_samples is not None and calibration_samples < 1) or weight_bits not in (None, 7, 8):
        raise ValueError(f"calibration_samples={calibration_samples}, weight_bits={weight_bits}; expected 1 or more samples, 7 or 8 bits, or None")
    if epochs < 1 or steps_per_epoch < 0 or save_every < 0 or threads < 0 or seed < 0:
        raise ValueError("epochs is at least 1; steps_per_epoch, save_every, threads and seed are at least 0")
    left, sparsity, keep, group = _prune(prune, structured)
    if structured and (not left or flops):
        raise ValueError("structured=True needs a share in prune, and no flops, which says the same by operations")
    if not (left or flops or sparsity or group or quantize):
        raise ValueError("nothing to do: give prune, flops or quantize")
    source, target = fields or (None, None)
    title = b"model in memory" if isinstance(model, Model) else os.fsencode(model)
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(model, Model):
            model.save(os.path.join(folder, "model"))
            model = os.path.join(folder, "model")
        out = None if out is None else os.fspath(out)
        pipelines = []
        try:
            for given, what in ((data, "data"), (validation, "validation")):
                pipelines.append(_pipeline(given, what))
            result = _core.compress(
                os.fsencode(model), out, *pipelines, None if checkpoint is None else str(checkpoint), None if html is None else os.fspath(html),
                left or float(flops), norm, sparsity, keep, group, [os.fsencode(name) for name in ((exclude,) if isinstance(exclude, str) else exclude)],
                quantize or "none", qat, None if target_accuracy is None else -float(target_accuracy), epochs, steps_per_epoch, learning_rate, seed, threads,
                save_every, search, search_seconds, source, target, progress, 0.0 if bits is None else float(bits), title,
                calibration, float(percentile or 0), calibration_samples or 0, weight_bits or 0,
            )
        finally:
            for pipeline in pipelines:
                if pipeline is not None:
                    pipeline.close()
    return Compressed(result, out)
