#!/usr/bin/env python3
"""Draws attention and learning curves. Needs numpy and matplotlib (Debian: python3-matplotlib).

    plot.py attention FILE --out attention.png     FILE: output of `attune align --format json`
    plot.py log LOG... --out curves.png            LOG: log.jsonl of a training

The extension of --out selects the format: .png, .svg, .pdf.
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
    """Selects installed fonts that together contain all characters. Warns about missing ones."""
    families = ["DejaVu Sans"]  # included in matplotlib
    missing = {ord(character) for word in words for character in word}
    missing -= font_manager.get_font(font_manager.findfont(families[0])).get_charmap().keys()
    fonts = map(font_manager.get_font, font_manager.findSystemFonts() if missing else [])
    covered = {font: missing & font.get_charmap().keys() for font in fonts if not font.style_flags}  # neither bold nor italic
    while missing and (best := max(covered, key=lambda font: len(covered[font] & missing), default=None)):
        if not covered[best] & missing:
            break
        font_manager.fontManager.addfont(best.fname)  # matplotlib's cached list may lack the font
        families.append(best.family_name)
        missing -= covered[best]
    if missing:
        print(f"plot.py: no installed font has {''.join(map(chr, sorted(missing)))!r}", file=sys.stderr)
        warnings.filterwarnings("ignore", "Glyph")  # repeats the warning
    matplotlib.rcParams["font.family"] = families


def draw_attention(arguments):
    pairs = read_attention(arguments.file)
    if not 1 <= arguments.pair <= len(pairs):
        raise Error(f"--pair {arguments.pair}: expected 1 to {len(pairs)}, the pairs in {arguments.file}")
    source, target, weights = pairs[arguments.pair - 1]
    if not weights.size:
        raise Error(f"--pair {arguments.pair}: this pair has no weights in {arguments.file}")
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
    axes.set_xlabel("source"), axes.set_ylabel("target")
    figure.colorbar(image, label="attention weight")
    save(figure, arguments.out)


def labels(words):
    """Makes blanks at the ends of words visible, and escapes control characters, which SVG forbids."""
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
    """The loss, and the fields that only some lines have, which are those of validations."""
    lines = [line for log in logs for line in log]
    fields = dict.fromkeys(field for line in lines for field in line)  # in order
    return ["loss"] + [field for field in fields if field != "loss" and not all(field in line for line in lines)]


def curve(log, against, field):
    """Two arrays from the lines that have both fields. Non-finite numbers become gaps."""
    points = [(line[against], line[field]) for line in log if against in line and field in line]
    try:
        return np.array(points, float).reshape(-1, 2).T
    except (ValueError, TypeError, OverflowError):
        raise Error(f"--fields {field}, --against {against}: expected fields with numbers") from None


def save(figure, path):
    form = pathlib.Path(path).suffix[1:]
    if form not in figure.canvas.get_supported_filetypes():
        raise Error(f"--out {path}: unknown extension, expected one of {', '.join(figure.canvas.get_supported_filetypes())}")
    figure.savefig(path, dpi=150)


def main():
    parser = Arguments(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Arguments)
    attention = commands.add_parser("attention", help="draw the attention weights of a pair")
    attention.add_argument("file", help="output of `attune align --format json`")
    attention.add_argument("--pair", type=int, default=1, metavar="N", help="index of the pair, from 1 (default: 1)")
    attention.add_argument("--out", default="attention.png", help="output file (default: %(default)s)")
    attention.set_defaults(draw=draw_attention)
    log = commands.add_parser("log", help="draw learning curves")
    log.add_argument("logs", nargs="+", help="log.jsonl of one or more trainings")
    log.add_argument("--fields", metavar="LIST",
                     help="fields to draw, such as loss,bleu (default: loss, and the fields of validations)")
    log.add_argument("--against", default="step", metavar="FIELD", help="field of the x axis (default: %(default)s)")
    log.add_argument("--out", default="curves.png", help="output file (default: %(default)s)")
    log.set_defaults(draw=draw_logs)
    arguments = parser.parse_args()
    if matplotlib is None:
        raise Error("matplotlib is not installed (Debian: python3-matplotlib)")
    # Disables math markup ($), and writes text in SVG files as text instead of paths.
    matplotlib.rcParams.update({"text.parse_math": False, "svg.fonttype": "none"})
    arguments.draw(arguments)


if __name__ == "__main__":
    run(main)
