"""Sizes of payloads by the format's description (proto/WIRE.md), written down a second time: the tests hold
the bytes that were counted against these."""

import json
import math
import struct

TILE = 4096
VALUE_BITS = {"fp32": 32, "bf16": 16, "int8": 8, "int4": 4, "int2": 2, "sign": 1}


def read_safetensors(path):
    """name -> (dtype, shape, bytes) of a safetensors file, checked as a reader would."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    body = content[8 + length:]
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        assert begin == end, f"{name}: a gap before it"
        assert stop - begin == 4 * math.prod(entry["shape"]), f"{name}: its size"
        tensors[name] = (entry["dtype"], entry["shape"], body[begin:stop])
        end = stop
    assert end == len(body), "bytes after the last tensor"
    return tensors


def read_config(whole):
    """"a.b.c" -> text of each value, of the YAML that `longwave` writes: nested keys, plain values."""
    values, sections = {}, []
    for line in whole.splitlines():
        text = line.split(" #")[0].rstrip()
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        depth = len(text) - len(text.lstrip())
        key, _, value = text.strip().partition(":")
        sections = [entry for entry in sections if entry[0] < depth]
        if value.strip():
            values[".".join([name for _, name in sections] + [key])] = value.strip().strip('"\'')
        else:
            sections.append((depth, key))
    return values


def ceil_divide(a, b):
    return -(-a // b)


def tile_count(shapes, tiling):
    """Tiles of 4096. `flat`: everything end to end in runs. `model`: matrices in blocks of 64 x 64, or
    of 32 x 128 or 128 x 32 where fewer of those cover one, and all vectors end to end in runs."""
    if tiling == "flat":
        return ceil_divide(sum(map(math.prod, shapes)), TILE)
    matrices = sum(min(ceil_divide(shape[0], rows) * ceil_divide(math.prod(shape[1:]), TILE // rows)
                       for rows in (64, 32, 128)) for shape in shapes if len(shape) >= 2)
    vectors = sum(math.prod(shape) for shape in shapes if len(shape) < 2)
    return matrices + ceil_divide(vectors, TILE)


def segment_sizes(tiles, segment_tiles, shards):
    """Tiles of each segment; small models have smaller ones, so that every shard has one."""
    share = ceil_divide(tiles, shards)
    if ceil_divide(tiles, share) < shards:
        share = tiles // shards
    size = min(segment_tiles, share)
    return [min(size, tiles - begin) for begin in range(0, tiles, size)]


def elias_fano_bytes(n, k):
    low = int(math.log2(n / k))
    return ceil_divide(k + ceil_divide(n, 2**low) + k * low, 8)


def payload_bytes(tiles, selection, k, codec):
    """Bytes of a segment's payload."""
    up8 = lambda size: ceil_divide(size, 8) * 8
    count = TILE if selection == "all" else k
    size = 16
    if VALUE_BITS[codec] <= 8:
        size = up8(size + 2 * tiles)
    if selection == "topk":
        size = up8(size + tiles * elias_fano_bytes(TILE, k))
    return size + tiles * ceil_divide(count * VALUE_BITS[codec], 8)


def round_payload_bytes(config, shapes, way):
    """All segments' payloads of one round and worker; way: "up" or "down"."""
    sizes = segment_sizes(tile_count(shapes, config["sync.tiling"]), int(config["sync.segment_tiles"]),
                          int(config["run.shards"]))
    return sum(payload_bytes(tiles, config[f"sync.{way}.selection"], int(config[f"sync.{way}.k"]),
                             config[f"sync.{way}.codec"]) for tiles in sizes)
