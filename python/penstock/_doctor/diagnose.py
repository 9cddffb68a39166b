"""From measurements to a verdict: class, bottleneck, cause, and the sentence."""

from .answer import BALANCED, FASTER, INPUT_BOUND, _three, best_known, duration

BOTTLENECKS = {
    "python-function": "python", "heavy-augmentation": "cpu", "large-images": "cpu", "single-worker": "configuration", "worker-limit": "cpu",
    "many-small-files": "storage", "slow-storage": "storage", "compressed-stream": "cpu", "no-prefetch": "configuration",
    "tiny-batch": "configuration", "serialization": "python", "lock-contention": "python", "gpu-unused": "configuration", "consumer": "consumer",
    "transfer": "transfer", "none": "consumer", "page-cache": "storage", "shuffle-after-decode": "memory", "late-filter": "cpu", "early-floats": "cpu", "slow-format": "cpu", "shuffle-buffer": "memory",
    "ram-limit": "memory", "unused-fields": "configuration", "large-batch": "memory",
}
# Words for the sentence: why, for each cause.
REASONS = {
    "python-function": "the Python function {stage} takes most of the loader's time",
    "heavy-augmentation": "augmentation in {stage} takes most of the loader's time",
    "large-images": "the images are decoded at {factor} the pixels that a batch keeps",
    "single-worker": "one worker prepares the batches, one after the other",
    "worker-limit": "the loader's workers cannot prepare batches as fast as the step takes them",
    "many-small-files": "the samples are many small files, each opened by itself",
    "slow-storage": "reading takes most of the loader's time",
    "compressed-stream": "the data is one compressed stream",
    "no-prefetch": "no batch is prepared while a step runs",
    "tiny-batch": "the batches are so small that fixed costs prevail",
    "serialization": "passing batches between processes takes most of the loader's time",
    "lock-contention": "the loader's threads wait for each other",
    "page-cache": "the data set does not fit into memory, so that every epoch after the first reads it from storage",
    "shuffle-after-decode": "the shuffle buffer holds decoded samples",
    "late-filter": "samples are computed that a later stage leaves out",
    "shuffle-buffer": "a shuffle buffer must be filled from a stream before the first batch",
    "early-floats": "images are converted to floats before they are made smaller",
    "slow-format": "each sample is expensive to read from files of this format",
    "ram-limit": "the RAM budget has no room for batches ahead or for the cache",
    "unused-fields": "fields are read and delivered that training does not use",
    "large-batch": "the batches are so large that memory has room for few of them",
}
HEALTHY = ("none", "consumer", "heavy-model")
SMALL_FILE, MANY_FILES = 256 * 1024, 500
TINY = 8


class Case:
    """Everything that is known about a run."""

    def __init__(self, share=None, loader_rate=0.0, step_rate=0.0, kinds=None, places=None, loader=None, gpu=None, device=None, pixels=None, files=None,
                 batch=1, larger_gain=None, split=(0.0, 0.0, 0.0), processes=0, cold=False, slowed=None, engine=None):
        self.share, self.loader_rate, self.step_rate = share, loader_rate, step_rate
        self.kinds, self.places, self.loader = kinds or {}, places or [], loader
        self.gpu, self.pixels, self.files, self.batch, self.larger_gain = gpu or {}, pixels, files, batch, larger_gain
        self.device = device  # where copies go
        self.split = split  # seconds of a step: waiting, copying to a device, computing
        self.processes = processes  # of multiprocessing, which the loader keeps
        self.cold, self.slowed = cold, slowed  # the data exceeds the memory; (rate of the first epoch, of the later ones)
        self.engine = engine  # what the engine's doctor says


def classify(case):
    if case.share is None:
        return "unknown"
    if case.share > INPUT_BOUND:
        return "input-bound"
    return "balanced" if case.share >= BALANCED else "consumer-bound"


def _top(case, kind):
    """The place that most samples of a kind name."""
    return next((place["where"] for place in case.places if place["kind"] == kind), "")


def _by_work(case):
    """Returns the cause that the stacks show, and the stage; ("", "") if no kind of work stands out."""
    kinds = case.kinds
    if kinds.get("contend", 0) >= 0.45 * (1 - kinds.get("lock", 0)) > 0:
        return "lock-contention", _top(case, "contend")
    busy = 1 - sum(kinds.get(kind, 0) for kind in ("lock", "step", "convert"))
    place = _top(case, "convert")
    if kinds.get("convert", 0) >= 0.5 * (1 - kinds.get("lock", 0)) > 0 and " calls " in place:  # a function of the user makes arrays of Python objects
        return "python-function", place
    if busy <= 0.2:
        return "", ""
    share = {kind: kinds.get(kind, 0) / busy for kind in kinds}
    if share.get("python", 0) >= 0.5:
        return "python-function", _top(case, "python")
    if share.get("augment", 0) >= 0.5:
        return "heavy-augmentation", _top(case, "augment")
    if case.pixels and case.pixels[0] >= 4 * case.pixels[1] and share.get("decode", 0) + share.get("augment", 0) >= 0.4:
        return "large-images", "decode"
    if share.get("read", 0) >= 0.4:
        small = case.files and case.files[0] >= MANY_FILES and case.files[1] < SMALL_FILE
        return ("many-small-files" if small else "slow-storage"), "read"
    if share.get("serialize", 0) >= 0.5:
        return "serialization", _top(case, "serialize")
    return "", ""


def copies_too_long(case):
    """Whether copying to the device takes longer than computing, and longer than waiting."""
    wait, transfer, compute = case.split
    return transfer > max(wait, compute)


def _by_engine(case):
    """Returns the cause that the engine's doctor found, and the stage; ("", "") if it found nothing."""
    verdict = (case.engine or {}).get("verdict", {})
    known = verdict.get("cause", "none") not in (*HEALTHY, "worker-limit")
    if not known:
        return "", ""
    return verdict["cause"], (_top(case, "python") if verdict["cause"] == "python-function" else "") or verdict["stage"]


def cause_of(case):
    """Returns the cause and the stage."""
    kind = classify(case)
    if case.gpu.get("unused") and kind in ("consumer-bound", "balanced"):
        return "gpu-unused", "step"
    if copies_too_long(case):
        return "transfer", "step"
    if kind == "consumer-bound":
        return ("consumer", "step") if case.loader_rate > FASTER * case.step_rate > 0 else ("none", "")
    if kind == "unknown" and case.engine is not None:
        return case.engine["verdict"]["cause"], case.engine["verdict"]["stage"]
    if case.slowed and case.cold:
        return "page-cache", "read"
    cause, stage = _by_engine(case)
    if cause:
        return cause, stage
    if case.larger_gain and case.larger_gain >= 1.5 and case.batch <= TINY:
        return "tiny-batch", "batch"
    cause, stage = _by_work(case)
    if cause:
        return cause, stage
    loader = case.loader
    for found, stage, _ in loader.findings() if loader is not None else ():
        return found, stage
    if case.pixels and case.pixels[0] >= 4 * case.pixels[1]:
        return "large-images", "decode"
    if case.engine is not None or case.processes > 1 and case.kinds.get("lock", 0) >= 0.5:
        return "worker-limit", "loader"
    if loader is not None and not loader.overlaps:
        alone = case.loader_rate or 1
        return ("no-prefetch", "prefetch") if case.step_rate and alone >= case.step_rate else ("single-worker", "loader")
    return "worker-limit", "loader"


def sentence(case, kind, cause, stage, best, epoch_now):
    """The answer in one or two sentences."""
    if kind == "unknown" and case.engine is not None:
        return case.engine["verdict"]["sentence"]
    if kind == "unknown":
        text = f"The loader alone delivers {_three(case.loader_rate)} samples per second"
        if case.loader_rate:
            text += f"; a step that takes less than {duration(case.batch / case.loader_rate)} per batch of {case.batch} would wait for it"
        return text + "."
    share = f"{100 * case.share:.0f} %"
    if cause == "gpu-unused":
        names = ", ".join(device["name"] for device in case.gpu.get("devices", ())) or "a GPU"
        return f"There is a GPU that the framework does not use ({names}): training computes on the CPU and waits for data {share} of the time."
    if cause == "consumer":
        times = case.loader_rate / case.step_rate if case.step_rate else 0
        return f"The step is the limit: training waits for data {share} of the time, and the loader alone is {_three(times)} times as fast as the step."
    if cause == "transfer":
        wait, transfer, compute = case.split
        text = f"Copying batches to the device is the limit: it takes {100 * transfer / (wait + transfer + compute):.0f} % of the time, computing {100 * compute / (wait + transfer + compute):.0f} %."
        return text + _gain_of(best, epoch_now)
    if cause == "none":
        return f"Loader and step are well matched: training waits for data {share} of the time."
    factor = f"{_three(case.pixels[0] / case.pixels[1])} times" if case.pixels else "several times"
    function, _, called = (stage or "the loader").partition(" calls ")
    why = REASONS.get(cause, cause).format(stage=f"{function}, calling {called}," if called else function, factor=factor)
    if case.slowed:
        first, later = map(_three, case.slowed)
        why += f" ({first} samples per second in the first epoch, {later} in later ones)"
    return f"Training waits for data {share} of the time: {why}." + _gain_of(best, epoch_now)


def _gain_of(best, epoch_now):
    """What the best remedy brings, as a sentence with a space before it; "" if nothing is known."""
    text, known = "", best and best_known(best)
    if known and known.get("gain") and known["gain"] > 1.05:
        how = "measured" if known is best["measured"] else "predicted"
        text = f" {best['title']}: {'up to ' if known.get('upper_bound') else ''}{_three(known['gain'])} times the samples per second ({how})"
        if known.get("epoch_seconds") and epoch_now:
            text += f", one epoch {duration(known['epoch_seconds'])} instead of {duration(epoch_now)}"
        text += "."
    return text
