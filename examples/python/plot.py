#!/usr/bin/env python3
"""Draws attention and learning curves. Needs numpy and matplotlib (Debian: python3-matplotlib).

    plot.py attention FILE --out attention.png     what `align --format json` wrote
    plot.py log LOG... --out curves.png            log.jsonl of one training or of several

The end of --out says in which form: .png, .svg, .pdf.
"""
import argparse
import pathlib
import re
import sys
import warnings

import numpy as np

from attune import Arguments, Error, read_attention, read_log, run

try:
    import matplotlib
    from matplotlib import font_manager
    from matplotlib.figure import Figure
except ImportError:
    matplotlib = None

LARGEST = 60  # inches


def use_fonts_for(words):
    """Adds installed fonts until each character has one; matplotlib takes the first that has it."""
    families = ["DejaVu Sans"]  # which is part of matplotlib
    missing = {ord(character) for word in words for character in word}
    missing -= font_manager.get_font(font_manager.findfont(families[0])).get_charmap().keys()
    fonts = map(font_manager.get_font, font_manager.findSystemFonts() if missing else [])
    covered = {font: missing & font.get_charmap().keys() for font in fonts if not font.style_flags}  # neither bold nor italic
    while missing and (best := max(covered, key=lambda font: len(covered[font] & missing), default=None)):
        if not covered[best] & missing:
            break
        font_manager.fontManager.addfont(best.fname)  # matplotlib's own list may be older than the font
        families.append(best.family_name)
        missing -= covered[best]
    if missing:
        print(f"plot.py: no installed font has {''.join(map(chr, sorted(missing)))!r}", file=sys.stderr)
        warnings.filterwarnings("ignore", "Glyph")  # which would say it again
    matplotlib.rcParams["font.family"] = families


def draw_attention(arguments):
    pairs = read_attention(arguments.file)
    if not 1 <= arguments.pair <= len(pairs):
        raise Error(f"--pair {arguments.pair}: {arguments.file} has the pairs 1 to {len(pairs)}")
    source, target, weights = pairs[arguments.pair - 1]
    if not weights.size:
        raise Error(f"--pair {arguments.pair}: there are no words in {arguments.file}")
    rows, columns = weights.shape
    source, target = labels(source), labels(target)
    use_fonts_for(source + target)
    size = min(2.5 + 0.3 * columns, LARGEST), min(1.5 + 0.3 * rows, LARGEST)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(weights, cmap="Blues", vmin=0)
    turned = 90 if max(map(len, source)) > 2 else 0
    axes.set_xticks(range(columns), source, rotation=turned)
    axes.set_yticks(range(rows), target)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("read"), axes.set_ylabel("written")
    figure.colorbar(image, label="attention")
    save(figure, arguments.out)


def labels(words):
    """Blanks at the ends of words would not be seen; control characters have no place in an SVG."""
    printable = ("".join(c if c.isprintable() else repr(c)[1:-1] for c in word) for word in words)
    return [re.sub("^ | $", "␣", word) for word in printable]


def draw_logs(arguments):
    logs = {path: read_log(path) for path in arguments.logs}
    fields = arguments.fields.split(",") if arguments.fields else validated_fields([*logs.values()])
    use_fonts_for([*logs, *fields])
    figure = Figure(figsize=(7, 2.5 * len(fields) + 0.5), layout="constrained")
    every_axes = figure.subplots(len(fields), sharex=True, squeeze=False)[:, 0]
    for axes, field in zip(every_axes, fields):
        for path, log in logs.items():
            x, y = curve(log, arguments.against, field)
            if not len(x):
                raise Error(f"{path}: no line has {arguments.against} and {field}")
            axes.plot(x, y, marker="." if len(x) < 100 else None, label=path)
        axes.set_ylabel(field)
        axes.grid(alpha=0.3)
    every_axes[-1].set_xlabel(arguments.against)
    if len(logs) > 1:
        every_axes[0].legend()
    save(figure, arguments.out)


def validated_fields(logs):
    """The loss, and what only some lines have: those of a validation."""
    lines = [line for log in logs for line in log]
    fields = dict.fromkeys(field for line in lines for field in line)  # in order
    return ["loss"] + [field for field in fields if field != "loss" and not all(field in line for line in lines)]


def curve(log, against, field):
    """Of the lines that have both. Numbers that were not finite are gaps."""
    points = [(line[against], line[field]) for line in log if against in line and field in line]
    try:
        return np.array(points, float).reshape(-1, 2).T
    except ValueError:
        raise Error(f"{against} and {field} are not both numbers") from None


def save(figure, path):
    form = pathlib.Path(path).suffix[1:]
    if form not in figure.canvas.get_supported_filetypes():
        raise Error(f"--out {path}: one of {', '.join(figure.canvas.get_supported_filetypes())} was expected after the dot")
    figure.savefig(path, dpi=150)


def main():
    parser = Arguments(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Arguments)
    attention = commands.add_parser("attention", help="the attention of a pair")
    attention.add_argument("file", help="written by `align --format json`")
    attention.add_argument("--pair", type=int, default=1, metavar="N", help="which one of the file, from 1 (default: 1)")
    attention.add_argument("--out", default="attention.png", help="picture to write (default: %(default)s)")
    attention.set_defaults(draw=draw_attention)
    log = commands.add_parser("log", help="learning curves")
    log.add_argument("logs", nargs="+", help="log.jsonl")
    log.add_argument("--fields", metavar="LIST",
                     help="what is drawn, such as loss,bleu (default: the loss and what validations measure)")
    log.add_argument("--against", default="step", metavar="FIELD", help="along the bottom (default: %(default)s)")
    log.add_argument("--out", default="curves.png", help="picture to write (default: %(default)s)")
    log.set_defaults(draw=draw_logs)
    arguments = parser.parse_args()
    if matplotlib is None:
        raise Error("matplotlib is not installed (Debian: python3-matplotlib)")
    # $ is a character like any other, and the text of an SVG is text.
    matplotlib.rcParams.update({"text.parse_math": False, "svg.fonttype": "none"})
    arguments.draw(arguments)


if __name__ == "__main__":
    run(main)
