"""same_tensors.py FILE OTHER...: exits with 1 and names the first difference unless all these
safetensors files hold the same bytes for the same tensors. Metadata may differ, as times do.
"""
import json
import struct
import sys


def tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    return {name: (entry["dtype"], entry["shape"], data[begin:][slice(*entry["data_offsets"])])
            for name, entry in header.items() if name != "__metadata__"}


first = tensors(sys.argv[1])
for path in sys.argv[2:]:
    other = tensors(path)
    for name in sorted(first.keys() | other.keys()):
        if first.get(name) != other.get(name):
            sys.exit(f"{path}: {name} is not that of {sys.argv[1]}")
