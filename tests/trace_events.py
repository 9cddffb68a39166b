"""Traces against the rules of the Trace Event Format: trace_events.schema.json says what each event must have; what a schema cannot
say is checked here: asynchronous events come in pairs, and spans of a track follow each other or lie inside each other.

    python3 trace_events.py TRACE.json
"""
import json
import os
import sys

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace_events.schema.json"), encoding="utf-8") as f:
    SCHEMA = json.load(f)

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float)}
NOTES = {"$schema", "$defs", "title", "description"}


def is_a(value, name):
    return isinstance(value, TYPES[name]) and not isinstance(value, bool)


def faults(value, schema, place="trace"):
    """The places where `value` does not follow the schema, which uses a part of JSON Schema."""
    if "$ref" in schema:
        return faults(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]], place)
    found = []
    for rule, wanted in schema.items():
        if rule == "type":
            names = wanted if isinstance(wanted, list) else [wanted]
            found += [] if any(is_a(value, name) for name in names) else [f"{place} is {value!r}, not {wanted}"]
        elif rule == "enum":
            found += [] if value in wanted else [f"{place} is {value!r}, not one of {wanted}"]
        elif rule == "minimum":
            found += [] if not is_a(value, "number") or value >= wanted else [f"{place} is {value}, below {wanted}"]
        elif rule == "required":
            found += [f"{place} has no {name}" for name in wanted if isinstance(value, dict) and name not in value]
        elif rule == "minProperties":
            found += [] if not isinstance(value, dict) or len(value) >= wanted else [f"{place} is empty"]
        elif rule == "properties":
            found += [fault for name, inner in wanted.items() if isinstance(value, dict) and name in value
                      for fault in faults(value[name], inner, f"{place}.{name}")]
        elif rule == "additionalProperties":
            found += [fault for name in (value if isinstance(value, dict) else ()) if name not in schema.get("properties", {})
                      for fault in faults(value[name], wanted, f"{place}.{name}")]
        elif rule == "items":
            found += [fault for i, item in enumerate(value if isinstance(value, list) else ()) for fault in faults(item, wanted, f"{place}[{i}]")]
        elif rule == "allOf":
            found += [fault for inner in wanted for fault in faults(value, inner, place)]
        elif rule == "if":
            found += faults(value, schema["then"], place) if not faults(value, wanted, place) else []
        else:
            assert rule in NOTES or rule == "then", f"the schema uses {rule}, which is not checked"
    return found


def unpaired(events):
    begun, found = {}, []
    for event in events:
        if event["ph"] == "b":
            begun[event["cat"], event["id"]] = event["ts"]
        elif event["ph"] == "e" and begun.pop((event["cat"], event["id"]), float("inf")) > event["ts"]:
            found.append(f"{event} ends what has not begun")
    return found + [f"{key} does not end" for key in begun]


def crossing(events):
    tracks, found = {}, []
    for event in events:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        open_ends = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_ends and open_ends[-1] <= begin + 1e-3:
                open_ends.pop()
            if open_ends and end > open_ends[-1] + 1e-3:
                found.append(f"a span from {begin} to {end} crosses the end of another at {open_ends[-1]}")
            open_ends.append(end)
    return found


def check_trace(path):
    """Returns the events of a trace that follows all rules."""
    with open(path, encoding="utf-8") as f:
        trace = json.load(f)
    found = faults(trace, SCHEMA)
    found = found or unpaired(trace["traceEvents"]) + crossing(trace["traceEvents"])
    assert not found, found[:10]
    return trace["traceEvents"]


if __name__ == "__main__":
    print(len(check_trace(sys.argv[1])), "events")
