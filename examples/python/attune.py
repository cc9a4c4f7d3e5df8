"""Files of attune in Python: safetensors, attention weights, logs. Needs numpy; checksums are
verified and written where the package xxhash (Debian: python3-xxhash) is installed.

    tensors, metadata = read_safetensors("attune-model/best.safetensors")
    [(source, target, weights), *others] = read_attention("attention.json")
    losses = [line["loss"] for line in read_log("attune-model/log.jsonl") if "loss" in line]

What is wrong with a file is an Error of one line.
"""
import argparse
import json
import math
import os
import pathlib
import struct
import sys
from typing import NamedTuple

import numpy as np

try:
    import xxhash
except ImportError:
    xxhash = None

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}
WRITTEN = ("F64", "F32", "I32")  # those that attune reads
CHECKSUM, CHECKSUM_FUNCTION = "attune.checksum", "attune.checksum_function"


class Error(Exception):
    pass


class Attention(NamedTuple):
    source: list  # the tokens that were read
    target: list  # the tokens that were written
    weights: np.ndarray  # (target, source)


# Safetensors


def read_safetensors(path):
    """The tensors by name, and the metadata without the checksum. BF16 becomes float32."""
    data = pathlib.Path(path).read_bytes()
    try:
        header, data = split_header(data)
        metadata = header.pop("__metadata__", {})
        check_places(header, len(data))
        tensors = {name: read_tensor(name, entry, data) for name, entry in header.items()}
        verify_checksum(path, tensors, metadata)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Error(f"{path}: not a readable safetensors file: {error}") from None
    return tensors, metadata


def write_safetensors(path, tensors, metadata=None):
    """Writes float64, float32 and int32 arrays, or changes nothing; a checksum needs xxhash."""
    tensors = {name: np.asarray(x, order="C") for name, x in sorted(tensors.items())}
    metadata = dict(metadata or {})
    if xxhash:
        metadata |= {CHECKSUM: checksum(tensors, metadata), CHECKSUM_FUNCTION: "XXH3-64"}
    header, at = {"__metadata__": metadata}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": format_name(name, x), "shape": x.shape, "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors are aligned in the file
    unfinished = f"{path}.unfinished"
    with open(unfinished, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for x in tensors.values():
            file.write(x.tobytes())
    os.replace(unfinished, path)


def split_header(data):
    """The header, and the bytes after it."""
    if len(data) < 8:
        raise ValueError("it is shorter than its header")
    (length,) = struct.unpack("<Q", data[:8])
    if length > len(data) - 8:
        raise ValueError("it is shorter than its header")
    return json.loads(data[8 : 8 + length]), memoryview(data)[8 + length :]


def check_places(header, available):
    """Tensors must follow one another without gap or overlap, up to the end of the file."""
    at = 0
    for begin, end, name in sorted((*entry["data_offsets"], name) for name, entry in header.items()):
        if begin != at or end < begin:
            raise ValueError(f"{name!r} leaves a gap or overlaps")
        at = end
    if at != available:
        raise ValueError(f"its tensors take {at} bytes, but it has {available}")


def read_tensor(name, entry, data):
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"dtype {entry['dtype']!r} of {name!r} is not one of {', '.join(DTYPES)}")
    dtype, shape, (begin, end) = np.dtype(DTYPES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
    if math.prod(shape) * dtype.itemsize != end - begin:
        raise ValueError(f"{name!r} {shape} does not take {end - begin} bytes")
    x = np.ndarray(shape, dtype, data[begin:end]).copy()
    return (x.astype("<u4") << 16).view("<f4") if entry["dtype"] == "BF16" else x


def format_name(name, x):
    for written in WRITTEN:
        if x.dtype == DTYPES[written]:
            return written
    raise Error(f"{name!r} is {x.dtype}, but attune has float64, float32 and int32")


def checksum(tensors, metadata):
    """As tensor/safetensors.hpp describes it."""
    hash = xxhash.xxh3_64()

    def add(data):
        hash.update(struct.pack("<Q", len(data)))
        hash.update(data)

    hash.update(struct.pack("<Q", len(metadata)))
    for name, text in sorted(metadata.items()):
        add(name.encode()), add(text.encode())
    for name, x in sorted(tensors.items()):
        add(name.encode()), add(format_name(name, x).encode()), add(",".join(map(str, x.shape)).encode())
        add(x.tobytes())
    return hash.hexdigest()


def verify_checksum(path, tensors, metadata):
    """Takes the checksum out of the metadata. Files of other programs have none."""
    expected, function = metadata.pop(CHECKSUM, None), metadata.pop(CHECKSUM_FUNCTION, None)
    if expected is None and function is None:
        return
    if expected is None or function != "XXH3-64":
        raise Error(f"{path}: its checksum is {expected!r} by {function!r}, but one by 'XXH3-64' was expected")
    if xxhash is None:
        print(f"{path}: its checksum is not verified: the Python package xxhash is not installed", file=sys.stderr)
    elif checksum(tensors, metadata) != expected:
        raise Error(f"{path}: its contents do not match its checksum: it is damaged, or a program changed it without "
                    "updating the checksum")


# Attention


def read_attention(path):
    """The attention of each pair, from what `align` wrote with --format json."""
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
        if lines.pop() != "":
            raise ValueError("its last line is cut short")
        return [attention(**json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise Error(f"{path}: not attention as JSON: {error}") from None


def attention(source, target, weights):
    if [len(row) for row in weights] != [len(source)] * len(target):
        raise ValueError(f"weights are not {len(target)} rows of {len(source)}")
    return Attention(source, target, np.array(weights, np.float32).reshape(len(target), len(source)))


# Logs


def read_log(path):
    """The lines of a log.jsonl, but for a last one cut short. What was not finite is None."""
    lines = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    log = []
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
        except ValueError:
            fields = None
        if isinstance(fields, dict):
            log.append(fields)
        elif number < len(lines):
            raise Error(f"{path}:{number}: not a JSON object")
    return log


# Programs


class Arguments(argparse.ArgumentParser):
    """Whose errors are of one line, like all others."""

    def error(self, message):
        raise Error(message)


def run(main):
    """What is wrong becomes one line on standard error, and status 1."""
    try:
        main()
    except Error as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error}")
    except OSError as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error.filename}: {error.strerror}")
