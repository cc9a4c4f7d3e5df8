"""Writes the binary files of corpus/, which is next to this script. Its text files are written by hand."""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).parent / "corpus"


def write(name, contents):
    path = CORPUS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)


def safetensors(header, data):
    return struct.pack("<Q", len(header)) + header + data


def field(number, value):
    """A field of a protocol buffer: an integer, a float or bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    length, prefix = len(value), b""
    while length > 127:
        prefix, length = prefix + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + prefix + bytes([length]) + value


def model(kind, pieces, charsmap=b""):
    """A SentencePiece model. `kind`: 1 unigram, 2 BPE."""
    unknown, control, normal = 2, 3, 1
    special = [("<unk>", unknown), ("<s>", control), ("</s>", control)]
    proto = b""
    for piece, type_of in special + [(piece, normal) for piece in pieces]:
        score = -float(len(proto)) / 100 if type_of == normal else 0.0
        proto += field(1, field(1, piece.encode()) + field(2, score) + field(3, type_of))
    trainer = field(3, kind) + field(4, len(special) + len(pieces))
    normalizer = field(1, b"own") + field(2, charsmap) + field(3, 1) + field(4, 1) + field(5, 1)
    return proto + field(2, trainer) + field(3, normalizer)


LEAF = 0x30  # index of the unit with the key's value in the trie of charsmap()


def changed(table, at, number):
    return table[:at] + struct.pack("<I", number) + table[at + 4 :]


def charsmap(key, text):
    """A normalisation table: a double-array trie (darts-clone) with a key of three bytes, and its text."""
    units = [0] * 256
    position, base = 0, 0
    for i, byte in enumerate(key):
        units[position] |= (position ^ base) << 10
        position = base ^ byte
        units[position] = byte
        base = 0x10 * (i + 1)
    units[position] |= (position ^ base) << 10 | 1 << 8  # the key ends here
    units[base] = 1 << 31
    trie = struct.pack("<256I", *units)
    return struct.pack("<I", len(trie)) + trie + text + b"\0"


def main():
    header = b'{"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"__metadata__":{"a":"b"}} '
    write("safetensors/raw", safetensors(header, struct.pack("<2f", 1, -2)))
    write("safetensors/raw-short", safetensors(header, b"1234567"))
    write("safetensors/raw-length", struct.pack("<Q", 1 << 62) + header)
    words = ["\u2581", "a", "b", "e", "m", "n", "r", "s", "\u2581a", "an", "man", "\u2581man", "\u2581ri", "de"]
    write("sentencepiece/unigram", model(1, words))
    write("sentencepiece/bpe", model(2, words))
    characters = charsmap("\ufb01".encode(), b"fi")
    write("sentencepiece/characters", model(2, words, characters))
    # Tables with invalid offsets: at the root, at the leaf, in the size, and a text without end.
    write("sentencepiece/characters-trie", model(2, words, characters[:6] + b"\xff\xff" + characters[8:]))
    write("sentencepiece/characters-text", model(1, words, changed(characters, 4 + 4 * LEAF, 1 << 31 | 0x1000)))
    write("sentencepiece/characters-size", model(1, words, changed(characters, 0, len(characters) - 1)))
    write("sentencepiece/characters-end", model(1, words, characters[:-1]))
    # Texts that are not UTF-8: invalid bytes, and a leaf that points into a character.
    write("sentencepiece/characters-bytes", model(2, words, charsmap("\ufb01".encode(), b"\xff\xffi")))
    inside = charsmap("\ufb01".encode(), "\u0133".encode())
    write("sentencepiece/characters-inside", model(2, words, changed(inside, 4 + 4 * LEAF, 1 << 31 | 1)))


if __name__ == "__main__":
    main()
