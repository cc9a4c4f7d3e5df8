"""Draws line charts as SVG, with colours for light and dark pages."""
LIGHT = ["#0b55c4", "#c64520", "#02a577", "#7a2a7c", "#2e3036"]
DARK = ["#76a6f5", "#ee7330", "#16ca75", "#dd86b8", "#d6f0f4"]
WIDTH, HEIGHT, LEFT, ABOVE = 460, 320, 50, 80


def chart(lines, title, x_label, y_label, x_ticks, y_ticks, dashed=None):
    """Returns the SVG text. `lines`: name -> [(x, y), ...]. Ticks: [(position, label), ...], in
    ascending order. `dashed`: the end points of a dashed line."""
    (low_x, _), (high_x, _), (low_y, _), (high_y, _) = x_ticks[0], x_ticks[-1], y_ticks[0], y_ticks[-1]

    def at(x, y):
        return (f"{LEFT + (x - low_x) / (high_x - low_x) * WIDTH:.1f} "
                f"{ABOVE + (high_y - y) / (high_y - low_y) * HEIGHT:.1f}")

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" width="600" height="450" '
        'viewBox="0 0 600 450" font-family="sans-serif" font-size="13">',
        "<style>:root{background:#fff}text{fill:#1c2430}g text{fill:currentColor}.grid{stroke:#e3e7ec}"
        ".dashed{stroke:#98a3b3}"
        + "".join(f".line{i}{{color:{colour}}}" for i, colour in enumerate(LIGHT))
        + "@media (prefers-color-scheme:dark){:root{background:#171c23}text{fill:#e4e9f0}.grid{stroke:#2b333e}"
        + "".join(f".line{i}{{color:{colour}}}" for i, colour in enumerate(DARK)) + "}</style>",
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="600">{title}</text>',
        f'<text x="{LEFT}" y="60">{y_label}</text>',
        f'<text x="{LEFT + WIDTH / 2}" y="{ABOVE + HEIGHT + 40}" text-anchor="middle">{x_label}</text>',
    ]
    for position, text in y_ticks:
        _, y = at(low_x, position).split()
        out.append(f'<path class="grid" d="M{at(low_x, position)}H{LEFT + WIDTH}"/>'
                   f'<text x="{LEFT - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{text}</text>')
    for position, text in x_ticks:
        x, y = at(position, low_y).split()
        out.append(f'<text x="{x}" y="{float(y) + 20:.1f}" text-anchor="middle">{text}</text>')
    if dashed:
        out.append(f'<path class="dashed" stroke-dasharray="4 4" d="M{at(*dashed[0])}L{at(*dashed[1])}"/>')
    labels = []  # from top to bottom, without overlap
    for i, (name, line) in sorted(enumerate(lines.items()), key=lambda entry: -entry[1][1][-1][1]):
        x, y = map(float, at(*line[-1]).split())
        y = max([y + 4] + [other_y + 15 for other_x, other_y in labels if other_x == x])
        labels.append((x, y))
        dots = "".join('<circle cx="{}" cy="{}" r="3" fill="currentColor"/>'.format(*at(*p).split()) for p in line)
        out.append(f'<g class="line{i}"><path fill="none" stroke="currentColor" stroke-width="2" '
                   f'd="M{"L".join(at(*p) for p in line)}"/>{dots}'
                   f'<text x="{x + 9:.1f}" y="{y:.1f}">{name}</text></g>')
    return "\n".join(out + ["</svg>\n"])
