"""The doctor's answer: verdict, numbers, remedies; as text, as the JSON of docs/doctor.md, as a page."""

import os  # the others are imported where they are used: this module is part of `import penstock`

from .. import _core

SCHEMA = 1
INPUT_BOUND, BALANCED = 0.20, 0.05  # waiting shares
BOUND = 1.5  # the gain that counts of an upper bound
FASTER = 3.0  # times that a loader must be faster than the step for "consumer-bound"


def duration(seconds):
    for limit, unit, name in ((172800, 86400, "days"), (7200, 3600, "h"), (120, 60, "min"), (1, 1, "s"), (1e-3, 1e-3, "ms")):
        if seconds >= limit:
            return f"{_three(seconds / unit)} {name}"
    return f"{_three(seconds * 1e6)} µs"


def _three(value):
    if value == 0:
        return "0"
    text = f"{value:.3g}"
    return f"{value:.0f}" if "e" in text else text


class Answer:
    """What is slow, and what each remedy brings.

    print(answer)             the answer in words
    answer.to_dict()          the JSON contract of docs/doctor.md
    answer.save("report.html")  the page; "answer.json": the JSON
    """

    def __init__(self, values):
        self._values = values

    def to_dict(self):
        """Returns the answer as plain values: the JSON contract."""
        import json
        return json.loads(json.dumps(self._values))

    @property
    def verdict(self):
        """The verdict: class, wait_share, bottleneck, stage, cause, sentence."""
        return dict(self._values["verdict"])

    @property
    def remedies(self):
        """The remedies, best first."""
        return [dict(remedy) for remedy in self._values["remedies"]]

    def html(self):
        """Returns the page as text."""
        import json
        return _core.doctor_page(json.dumps(self._values))

    def save(self, path, overwrite=True):
        """Writes the page, or the JSON if the name ends in .json; whole or not at all."""
        import json
        path = os.fspath(path)
        text = json.dumps(self._values, indent=1) + "\n" if path.endswith(".json") else self.html()
        if os.path.exists(path) and not overwrite:
            raise FileExistsError(path)
        temporary = f"{path}.tmp-{os.getpid()}"
        try:
            with open(temporary, "w", encoding="utf-8") as f:
                f.write(text)
            os.replace(temporary, path)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)

    def _repr_html_(self):
        import html
        page = html.escape(self.html(), quote=True)
        return f'<iframe title="Penstock doctor" sandbox style="width:100%;height:640px;border:0" srcdoc="{page}"></iframe>'

    def __repr__(self):
        verdict = self._values["verdict"]
        return f"<penstock.doctor {verdict['class']}, cause {verdict['cause']}>"

    def __str__(self):
        values = self._values
        lines = [values["verdict"]["sentence"], ""]
        now = values["now"]
        if now["samples_per_s"]:
            line = f"now        {_three(now['samples_per_s'])} samples/s"
            if now.get("epoch_seconds"):
                line += f", one epoch {duration(now['epoch_seconds'])}"
            lines.append(line)
        alone = values.get("alone") or {}
        if alone.get("loader_samples_per_s"):
            lines.append(f"loader     {_three(alone['loader_samples_per_s'])} samples/s alone")
        if alone.get("step_samples_per_s"):
            lines.append(f"step       {_three(alone['step_samples_per_s'])} samples/s alone: what a perfect loader would bring")
        if (values.get("step") or {}).get("transfer_ms"):
            lines.append(f"copies     {_three(values['step']['transfer_ms'])} ms of {_three(values['step']['ms'])} ms per step, to the device")
        for device in (values.get("gpu") or {}).get("devices", ()):
            share = device.get("utilisation_share")
            lines.append(f"gpu        {device['name']}" + (f": {100 * share:.0f} % busy while the steps ran" if share is not None else ""))
        if (values.get("data") or {}).get("cold"):
            lines.append(f"data       {values['data']['cache']}")
        if (values.get("equivalent") or {}).get("reason"):
            lines.append(f"penstock   no equivalent pipeline: {values['equivalent']['reason']}")
        if (values.get("settings") or {}).get("engine"):
            lines.append(f"stages     were not examined: {values['settings']['engine']}")
        for remedy in values["remedies"]:
            lines += _remedy_lines(remedy)
        if values.get("stacks"):
            lines.append("running functions")
            lines += [f"  {100 * place['share']:3.0f} %  {place['where']}" for place in values["stacks"][:5]]
        return "\n".join(lines)


def _remedy_lines(remedy):
    rates = []
    for name in ("predicted", "measured"):
        known = remedy.get(name)
        if known:
            rate, gain = known["samples_per_s"], known["gain"]
            times = f"{_three(gain)} times" if gain else ""
            how = name + (" on a sample" if on_sample(known) else "") + (" up to" if known.get("upper_bound") else "")
            rates.append(f"{how} {_three(rate)} samples/s ({times})" if rate else f"{how} {times}")
    lines = [f"{remedy['id']:<10} {remedy['title']}" + (": " + ", ".join(rates) if rates else "")]
    if remedy.get("command"):
        lines.append(f"           {remedy['command']}")
    return lines


def machine():
    import platform
    from .observe import cores

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return {"system": platform.platform(terse=True), "python": platform.python_version(), "cores": cores(), "memory_bytes": memory}


def remedy(id, title, command="", pipeline=None, predicted=None, measured=None, price=None, effort="low", reason=""):
    made = {
        "id": id, "title": title, "command": command, "pipeline": pipeline, "predicted": predicted, "measured": measured,
        "price": price or {"disk_bytes": 0, "ram_bytes": 0, "seconds": 0}, "effort": effort,
    }
    return {**made, "reason": reason} if reason else made


def result(rate, now, epoch_samples, upper_bound=False):
    """The numbers of a remedy. upper_bound: it brings this at most."""
    if not rate:
        return None
    made = {"samples_per_s": rate, "gain": rate / now if now else None, "epoch_seconds": epoch_samples / rate if epoch_samples else None}
    return {**made, "upper_bound": True} if upper_bound else made


def on_sample(known):
    """Whether the engine measured this on a sample of the data, without the step."""
    return "now_samples_per_s" in known


def best_known(one):
    """The numbers of a remedy that hold for the loop: those measured there, or the predicted ones; None: there are none."""
    measured = one["measured"]
    return measured if measured and not on_sample(measured) else one["predicted"] or measured


def rank(remedies):
    """Best first: by the measured gain, or the predicted one, per effort; those without a number last. An upper bound says how good it could be, not
    how: it counts little."""
    weight = {"low": 1.0, "medium": 1.3, "high": 2.0}

    def worth(one):
        known = best_known(one)
        gain = known["gain"] if known and known.get("gain") else 1.0
        gain = min(gain, BOUND) if known and known.get("upper_bound") else gain
        return -(gain - 1) / weight.get(one["effort"], 1.0)

    return sorted(remedies, key=worth)
