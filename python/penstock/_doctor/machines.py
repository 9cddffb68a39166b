"""How many machines a wished rate takes: every one loads and computes its part of a step; the gradients of all are added up over a link."""

import math

from .answer import remedy, result

USUAL_LINK = 1.25e9  # bytes per second: 10 Gbit/s
HOP = 50e-6  # seconds of one message
MOST = 65536


def _reachable(step):
    """Objects that a step may use: what it is bound to, closes over, has as defaults, and names among its globals."""
    function = getattr(step, "__func__", step)
    yield getattr(step, "__self__", None)
    yield step
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            pass
    yield from getattr(function, "__defaults__", None) or ()
    named = getattr(getattr(function, "__code__", None), "co_names", ())
    values = getattr(function, "__globals__", {})
    yield from (values[name] for name in named if name in values)


def gradient_bytes(step):
    """Bytes of the gradients of the models that a step trains: torch modules and Keras models. None: none was found."""
    found = {}  # by parameter: a model and its wrapper have the same ones
    for owner in _reachable(step):
        kind = type(owner)
        if isinstance(owner, type) or owner is None:
            continue
        try:
            if callable(getattr(kind, "named_parameters", None)):
                found.update({id(p): (p, p.numel() * p.element_size()) for p in owner.parameters() if p.requires_grad})
            elif hasattr(kind, "trainable_weights") and hasattr(kind, "count_params"):
                found.update({id(w): (w, 4 * math.prod(w.shape)) for w in owner.trainable_weights})
        except Exception:  # somebody else's object: it has no model to offer
            continue
    return sum(size for _, size in found.values()) or None


def gain(machines, seconds, gradients, link):
    """Steps of all machines in the time of one step of one."""
    if machines < 2 or not gradients or not seconds:
        return float(machines)
    exchange = 2 * (machines - 1) / machines * gradients / link + 2 * math.log2(machines) * HOP
    return machines * seconds / (seconds + exchange)


def more_machines(step, now, batch, epoch_samples, wish, link):
    """The remedy, for a wished rate or for two machines; None: nothing is known."""
    if not now:
        return None
    gradients, rate, seconds = gradient_bytes(step) if step is not None else None, link or USUAL_LINK, batch / now
    machines = 2
    if wish:
        machines = 1
        while machines < MOST and gain(machines, seconds, gradients, rate) * now < wish:
            machines += 1
    if machines == 1:
        made = remedy("more-machines", f"None: this machine by itself gives the {wish:g} samples/s that are wished for", effort="high")
        return {**made, "machines": 1}
    reached = gain(machines, seconds, gradients, rate)
    more = "more than " if wish and reached * now < wish else ""
    title = f"{more}{machines} machines like this one" + (f" for {wish:g} samples/s" if wish else "") + ": each loads and computes its part"
    basis = "the rate of this machine, times their number, without the exchange of gradients: an upper bound"
    if gradients:
        basis = (f"a step of {1e3 * seconds:.3g} ms, then {gradients / 1e6:.3g} MB of gradients at {rate / 1e9:.3g} GB/s" + ("" if link else " (assumed)")
                 + ", not overlapped with the step")
    predicted = {**result(reached * now, now, epoch_samples), "upper_bound": gradients is None, "basis": basis}
    made = remedy("more-machines", title, "torchrun --nnodes N …, tf.distribute.MultiWorkerMirroredStrategy, or mpirun -n N penstock train …", None, predicted, effort="high",
                  reason=basis)
    return {**made, "machines": machines}
