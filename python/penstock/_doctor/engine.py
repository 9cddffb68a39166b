"""Datasets of penstock: the doctor of the engine examines their pipeline, with the step that was measured here. Its answer has the costs
of every stage and remedies that change the pipeline; what was measured in the loop replaces what it predicts for the present."""

import json
import math
import os
import re
import tempfile

from .. import _core
from .._dataset import Arrays, Dataset, Files, Generator, Join, Map, Operation, Text, View

LEAST, MOST = 0.5, 30.0  # seconds of an examination
SOURCES = {Arrays: "from_arrays", Files: "from_files", Generator: "from_generator", Join: "joined"}


class Unwritten(Exception):
    """Why the engine cannot examine a dataset."""


class Customs:
    """The stages that no text describes, by the name that they have in the text."""

    def __init__(self, options):
        self.nodes, self.options = {}, options

    def name(self, node, before):
        """A text for the stage; its first word is the name of the operation."""
        about = getattr(node, "function", None)
        word = re.sub(r"[^\w.]+", "_", getattr(about, "__qualname__", "") or "").strip("_")
        text = f"{SOURCES.get(type(node), 'map' if isinstance(node, Map) else 'view')} {word}".strip()
        while text in self.nodes:
            text += "_"
        self.nodes[text] = (node, before)
        return text

    def add(self, stage, pipeline):
        node, before = self.nodes[stage]
        node.add(pipeline, before, self.options)

    def is_python(self, stage):
        from .._functions import _compiled_address

        node, _ = self.nodes[stage]
        return isinstance(node, Generator) or isinstance(node, Map) and not _compiled_address(node.function)


def describe(dataset):
    """Returns the text of a dataset and its Customs (None: the text says all)."""
    if dataset._batch_maps:
        raise Unwritten("it has functions for whole batches, which run after the engine")
    customs = Customs(dataset._options)
    text = _chain(dataset._nodes, dataset._options, customs)
    return text, customs if customs.nodes else None


def _chain(nodes, options, customs):
    return " | ".join(_stage(node, nodes[:i], options, customs) for i, node in enumerate(nodes))


def _stage(node, before, options, customs):
    if isinstance(node, Operation):
        return repr(node)
    if isinstance(node, Text):
        return _plain_text(node, options)
    if isinstance(node, Map) and node.workers == "process":
        raise Unwritten("it has functions in other processes")
    if isinstance(node, Join):
        mine = Customs(options)
        branches = " ".join(f"({_chain(branch, options, mine)})" for branch in node.branches)
        if not mine.nodes:
            return f"{node.name} {branches} {node.text}".strip()
    return customs.name(node, before)


def _plain_text(node, options):
    """The text without comments and inserted files."""
    if not any(c in node.text for c in "#@\n"):
        return node.text.strip()
    pipeline = _core.Pipeline.parse(node.text, **options)
    try:
        return " | ".join(operation["text"] for operation in json.loads(pipeline.describe(True))["operations"])
    finally:
        pipeline.close()


def cache_folder():
    """Where the tool keeps the measured limits of the machine; None: nowhere."""
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    return os.path.join(cache, "penstock") if cache.startswith("/") else os.path.join(home, ".cache", "penstock") if home else None


def examine(dataset, step_ms, seconds, options, verify=False):
    """Returns (the answer of the engine's doctor, ""), or (None, why there is none). options: as in run.py."""
    if not isinstance(dataset, Dataset):
        return None, "it is not a dataset of penstock"
    try:
        text, customs = describe(dataset)
        found = _core.doctor_run(
            text, customs, dataset._options, step_ms=step_ms or 0, seconds=min(MOST, max(LEAST, seconds)), epochs=options.epochs or 0, samples=options.samples or 0,
            memory=int(options.memory or 0), verify=verify, cache_dir=cache_folder(), temp_dir=tempfile.gettempdir(),
        )
    except (Unwritten, _core.Error) as error:
        return None, str(error)
    return json.loads(found), ""


class Scale:
    """From the engine's rates to those of the loop: gains stay, on the present rate `now`; with a step, no more than its rate `most`."""

    def __init__(self, found, now, most, epoch_samples, epochs):
        self.found, self.now, self.epoch_samples, self.epochs = found, now, epoch_samples, epochs
        self.most = max(1.0, most / now) if most else math.inf

    def rate(self, gain):
        return min(gain, self.most) * self.now if gain is not None else None

    def predicted(self, known):
        """The prediction anew, with the ranges and the times of the rate in the loop."""
        if not known or not known["gain"] or not self.now:
            return known
        gain, there = known["gain"], known["samples_per_s"]
        rate = self.rate(gain)
        epoch = self.epoch_samples / rate if self.epoch_samples else None
        low, high = (self.rate(known[end] * gain / there) if known[end] is not None else None for end in ("low", "high"))
        return {**known, "samples_per_s": rate, "gain": rate / self.now, "low": low, "high": high, "epoch_seconds": epoch,
                "total_seconds": epoch * self.epochs if epoch and self.epochs else None}

    def measured(self, known):
        """What was measured on the sample stays; the epoch is that of the loop."""
        if not known or not self.now:
            return known
        seconds, now, samples = known["epoch_seconds"], self.found["now"]["samples_per_s"], self.found["data"]["samples"]
        rate = self.rate(samples / seconds / now) if seconds and now and samples else None
        return {**known, "epoch_seconds": self.epoch_samples / rate if rate and self.epoch_samples else None}


def scaled(found, now, most, epoch_samples, epochs=None):
    """The remedies of the engine, with their gains in the loop."""
    scale = Scale(found, now, most, epoch_samples, epochs)
    made = []
    for one in found["remedies"]:
        if one["id"] in OFFERS:
            continue
        one = {**one, "title": one["title"][:1].upper() + one["title"][1:], "command": _for_python(one["command"] or ""),
               "settings": settings_of(one["command"] or "")}
        made.append({**one, "predicted": scale.predicted(one["predicted"]), "measured": scale.measured(one["measured"])})
    return made


OFFERS = {"more-machines", "compress", "faster-step"}  # for steps, which only Python knows


def settings_of(command):
    """The options of a dataset that a command of the tool sets, such as --workers 2; None: it is another command."""
    found = re.fullmatch(r"--(workers|prefetch) (\d+)", command)
    return {found[1]: int(found[2])} if found else None


def _for_python(command):
    given = settings_of(command)
    return f"dataset.with_options({', '.join(f'{name}={value}' for name, value in given.items())})" if given else command


def merge(values, found):
    """Adds what only the engine's doctor knows to the values of an answer."""
    for name in ("pipeline", "stages", "cuts", "remote"):
        if found.get(name) is not None:
            values[name] = found[name]
    values["limits"] = {**found["limits"], **values["limits"]}
    values["now"] = {**found["now"], **values["now"]}
    unknown = ("cold", "cache") if found["data"].get("bytes") is None and values["data"].get("cold") is not None else ()  # to the engine
    values["data"] = {**values["data"], **{name: value for name, value in found["data"].items() if value is not None and name not in unknown}}
    return values
