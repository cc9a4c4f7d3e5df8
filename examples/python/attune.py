"""Reads and writes files of attune: safetensors, attention weights, logs. Needs numpy. Checksums are
verified and written if the package xxhash (Debian: python3-xxhash) is installed.

    tensors, metadata = read_safetensors("attune-model/best.safetensors")
    [(source, target, weights), *others] = read_attention("attention.json")
    losses = [line["loss"] for line in read_log("attune-model/log.jsonl") if "loss" in line]

Invalid files raise an Error with a one-line message.
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
WRITTEN = ("F64", "F32", "I32")  # the types that attune supports
CHECKSUM, CHECKSUM_FUNCTION = "attune.checksum", "attune.checksum_function"


class Error(Exception):
    pass


class Attention(NamedTuple):
    source: list  # source tokens
    target: list  # target tokens
    weights: np.ndarray  # (target, source)


# Safetensors


def read_safetensors(path):
    """Returns the tensors by name, and the metadata without the checksum. Converts BF16 to float32."""
    data = pathlib.Path(path).read_bytes()
    try:
        header, data = split_header(data)
        metadata = header.pop("__metadata__", {})
        check_places(header, len(data))
        tensors = {name: read_tensor(name, entry, data) for name, entry in header.items()}
        verify_checksum(path, tensors, metadata)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Error(f"{path}: not a readable safetensors file: {error}") from None
    return tensors, metadata


def write_safetensors(path, tensors, metadata=None):
    """Writes float64, float32 and int32 arrays atomically; with a checksum if xxhash is installed."""
    tensors = {name: np.asarray(x, order="C") for name, x in sorted(tensors.items())}
    metadata = dict(metadata or {})
    if xxhash:
        metadata |= {CHECKSUM: checksum(tensors, metadata), CHECKSUM_FUNCTION: "XXH3-64"}
    header, at = {"__metadata__": metadata}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": format_name(name, x), "shape": x.shape, "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # aligns the tensors in the file
    if os.path.exists(path) and not os.path.isfile(path):
        raise Error(f"{path}: not a regular file")
    unfinished = f"{path}.unfinished"
    try:
        with open(unfinished, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for x in tensors.values():
                file.write(x.tobytes())
        os.replace(unfinished, path)
    except OSError as error:
        pathlib.Path(unfinished).unlink(missing_ok=True)
        raise Error(f"{path}: cannot be written: {error.strerror}") from None


def split_header(data):
    """Returns the header and the bytes after it."""
    length = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else 0
    if length > len(data) - 8:
        raise ValueError("the file is shorter than its header")
    return json.loads(data[8 : 8 + length]), memoryview(data)[8 + length :]


def check_places(header, available):
    """Raises ValueError unless the tensors fill the file without gaps or overlap."""
    at = 0
    for begin, end, name in sorted((*entry["data_offsets"], name) for name, entry in header.items()):
        if begin != at or end < begin:
            raise ValueError(f"{name!r} overlaps the tensor before it, or leaves a gap")
        at = end
    if at != available:
        raise ValueError(f"the tensors have {at} bytes, but the file has {available}")


def read_tensor(name, entry, data):
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"dtype {entry['dtype']!r} of {name!r} is not one of {', '.join(DTYPES)}")
    dtype, shape, (begin, end) = np.dtype(DTYPES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
    if math.prod(shape) * dtype.itemsize != end - begin:
        raise ValueError(f"{name!r} of shape {shape} does not have {end - begin} bytes")
    x = np.ndarray(shape, dtype, data[begin:end]).copy()
    return (x.astype("<u4") << 16).view("<f4") if entry["dtype"] == "BF16" else x


def format_name(name, x):
    for written in WRITTEN:
        if x.dtype == DTYPES[written]:
            return written
    raise Error(f"{name!r} is {x.dtype}, expected float64, float32 or int32")


def checksum(tensors, metadata):
    """XXH3-64 of metadata and tensors; tensor/safetensors.hpp defines the byte sequence."""
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
    """Verifies the checksum and removes it from the metadata. Files of other programs have none."""
    expected, function = metadata.pop(CHECKSUM, None), metadata.pop(CHECKSUM_FUNCTION, None)
    if expected is None and function is None:
        return
    if expected is None or function != "XXH3-64":
        raise Error(f"{path}: its checksum is {expected!r} by {function!r}, expected one by 'XXH3-64'")
    if xxhash is None:
        print(f"{path}: checksum not verified: the Python package xxhash is not installed", file=sys.stderr)
    elif checksum(tensors, metadata) != expected:
        raise Error(f"{path}: its contents do not match its checksum: the file is damaged, or a program changed it "
                    "without updating the checksum")


# Attention


def read_attention(path):
    """Reads the output of `attune align --format json`: one Attention per pair."""
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
        if lines.pop() != "":
            raise ValueError("the last line is incomplete")
        return [attention(**json.loads(line)) for line in lines]
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Error(f"{path}: not the output of align --format json: {error}") from None


def attention(source, target, weights, log_probability=None):  # without a text: no log_probability
    if [len(row) for row in weights] != [len(source)] * len(target):
        raise ValueError(f"expected weights of {len(target)} rows and {len(source)} columns")
    return Attention(source, target, np.array(weights, np.float32).reshape(len(target), len(source)))


# Logs


def read_log(path):
    """Reads the lines of a log.jsonl, except an incomplete last line. Non-finite numbers are None."""
    lines = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    log = []
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            fields = None
        if isinstance(fields, dict):
            log.append(fields)
        elif number < len(lines):
            raise Error(f"{path}:{number}: not a JSON object")
    return log


# Programs


class Arguments(argparse.ArgumentParser):
    """An argument parser that raises one-line errors."""

    def error(self, message):
        raise Error(message)


def run(main):
    """Calls main(). Errors are printed as one line to standard error, with exit status 1."""
    try:
        main()
    except Error as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error}")
    except OSError as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error.filename or 'output'}: {error.strerror}")
