"""A dataset in a notebook: its plan, and a picture of the first images of a batch with their labels."""

import base64
import html

from . import _core

TILES, ACROSS, SIDE, GAP = 12, 6, 96, 4


def page(dataset):
    plan = f"<pre style='font-size:smaller'>{html.escape(dataset.plan())}</pre>"
    try:
        batch = _first_batch(dataset)
        found = _picture(batch)
    except Exception as error:  # a notebook shows the plan without the picture
        return plan + f"<p>{html.escape(str(error))}</p>"
    if found is None:
        return plan
    picture, width = found
    return (
        plan + f"<img alt='the first images of a batch' style='width:{width}px;image-rendering:pixelated' "
        f"src='data:image/png;base64,{base64.b64encode(picture).decode()}'>" + _labels(batch, dataset.class_names)
    )


def _labels(batch, names):
    """Returns the labels of the pictures, row by row; an empty text if there are none."""
    label = dict(batch.items()).get("label")
    if label is None or len(label.shape) != 1 or not str(label.dtype).startswith("int"):
        return ""
    values = [int(value) for value in label.tolist()[:TILES]]
    words = [str(names[value]) if names and 0 <= value < len(names) else str(value) for value in values]
    rows = [", ".join(words[i : i + ACROSS]) for i in range(0, len(words), ACROSS)]
    return "<div>labels: " + "<br>".join(map(html.escape, rows)) + "</div>"


def _first_batch(dataset):
    from ._dataset import Dataset, Operation

    nodes = dataset._nodes if dataset._has_batches else (*dataset._nodes, Operation("batch", str(TILES)))
    with Dataset(nodes, {**dataset._options, "prefetch": 1}, dataset._batch_maps) as probe:
        return next(iter(probe), None)


def _picture(batch):
    """Returns the first field that looks like images as one PNG, and its display width."""
    for _, tensor in batch.items() if batch is not None else ():
        shape = tuple(tensor.shape)
        if len(shape) != 4 or str(tensor.dtype) not in ("uint8", "float32", "float16", "float64"):
            continue
        first = shape[3] not in (1, 3) and shape[1] in (1, 3)  # channels first
        if shape[3] in (1, 3) or first:
            return _sheet(tensor, shape, first)
    return None


def _sheet(tensor, shape, first):
    height, width, channels = (shape[2], shape[3], shape[1]) if first else shape[1:]
    scale = max(1, -(-max(height, width) // SIDE))  # every scale-th pixel is enough for a thumbnail
    rows, columns = -(-height // scale), -(-width // scale)
    tiles = [_tile(tensor[i].tolist(), height, width, channels, scale, first) for i in range(min(TILES, shape[0]))]
    if not tiles:
        return None
    if str(tensor.dtype) != "uint8":
        low = min(min(tile) for tile in tiles)
        span = max(max(tile) for tile in tiles) - low or 1
        tiles = [[int(255 * (value - low) / span) for value in tile] for tile in tiles]
    across = min(ACROSS, len(tiles))
    down = -(-len(tiles) // across)
    total = across * (columns + GAP)
    sheet = bytearray(b"\xff" * (total * down * (rows + GAP) * channels))
    for i, tile in enumerate(tiles):
        for y in range(rows):
            at = ((i // across * (rows + GAP) + y) * total + i % across * (columns + GAP)) * channels
            sheet[at : at + columns * channels] = bytes(tile[y * columns * channels : (y + 1) * columns * channels])
    return _core.encode_png(sheet, total, down * (rows + GAP), channels), total * max(1, SIDE // max(rows, columns))


def _tile(pixels, height, width, channels, scale, first):
    if first:
        return [pixels[c][y][x] for y in range(0, height, scale) for x in range(0, width, scale) for c in range(channels)]
    return [value for y in range(0, height, scale) for x in range(0, width, scale) for value in pixels[y][x]]
