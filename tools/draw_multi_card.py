# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/multi-card.md: python3 tools/draw_multi_card.py [folder]

Colours are of middle lightness, so that they can be read on a light and on a dark page. No words but numbers of
cards, letters and signs: the pages in both languages use the same files.
"""
import pathlib
import sys

BLUE, GREEN, ORANGE, PURPLE = "#3d74b8", "#3a8f5c", "#b9722a", "#8a5fb0"
LINE, TEXT = "#7d8794", "#78828f"


class Picture:
    def __init__(self, width, height):
        self.width, self.height, self.parts = width, height, []

    def box(self, x, y, w, h, fill, text="", is_held=True):
        """A piece that a card holds; an outline where it does not."""
        look = f'fill="{fill}"' if is_held else f'fill="none" stroke="{fill}" stroke-dasharray="4 3"'
        self.parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="3" {look}/>')
        if text:
            self.text(x + w / 2, y + h / 2 + 5, text, "#ffffff" if is_held else fill)

    def card(self, x, y, w, h, name):
        self.parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="8" fill="none" stroke="{LINE}"/>')
        self.text(x + w / 2, y - 8, name)

    def text(self, x, y, text, fill=TEXT, size=14):
        self.parts.append(f'<text x="{x}" y="{y}" fill="{fill}" font-size="{size}" text-anchor="middle">{text}</text>')

    def arrow(self, x1, y1, x2, y2, is_double=False, dashes=""):
        start = ' marker-start="url(#tip)"' if is_double else ""
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<path d="M{x1} {y1}L{x2} {y2}" stroke="{LINE}" stroke-width="1.6" fill="none"{dash}'
                          f'{start} marker-end="url(#tip)"/>')

    def write(self, path):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" font-family="sans-serif">\n'
                f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                f'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker></defs>\n')
        path.write_text(head + "\n".join(self.parts) + "\n</svg>\n", encoding="utf8")


def data_parallel():
    """Two whole copies, each with rows of its own; their gradients are added."""
    p = Picture(520, 250)
    for i in range(2):
        x = 30 + i * 270
        p.card(x, 40, 190, 150, f"GPU {i}")
        p.box(x + 15, 55, 60, 120, BLUE, "W")
        p.box(x + 115, 55, 60, 120, GREEN, f"g{'₀₁'[i]}")
        p.arrow(x + 77, 115, x + 113, 115)
        p.text(x + 95, 214, ("x₀ x₂ x₄ …", "x₁ x₃ x₅ …")[i])
    p.arrow(224, 115, 296, 115, is_double=True)
    p.text(260, 105, "Σ")
    p.text(260, 240, "g = g₀ + g₁")
    return p


def zero():
    """Who holds what of parameters, gradients and optimizer state."""
    p = Picture(640, 250)
    for s in range(4):
        x0 = 10 + s * 158
        p.text(x0 + 70, 20, f"zero_stage: {s}", size=13)
        for i in range(2):
            x = x0 + i * 74
            p.card(x, 55, 66, 160, str(i))
            for row, (name, fill, from_stage) in enumerate((("W", BLUE, 3), ("g", GREEN, 2), ("m", ORANGE, 1))):
                y = 63 + row * 50
                for half in range(2):
                    is_held = s < from_stage or half == i
                    p.box(x + 8, y + half * 22, 50, 20, fill, name if is_held else "", is_held)
    p.text(320, 240, "W: 2–4 B · g: 4 B · m: 8–12 B")
    return p


def tensor():
    """The first matrix by outputs, the second by inputs; the sum is the result."""
    p = Picture(620, 250)
    p.text(25, 130, "x", size=18)
    for i in range(2):
        y = 35 + i * 110
        p.card(70, y, 410, 80, f"GPU {i}")
        p.box(95, y + 12, 90, 26, BLUE, "A₀", i == 0)
        p.box(95, y + 42, 90, 26, BLUE, "A₁", i == 1)
        p.text(255, y + 46, f"h{'₀₁'[i]} = relu(A{'₀₁'[i]} x)")
        p.box(340, y + 12, 50, 56, PURPLE, "B₀", i == 0)
        p.box(396, y + 12, 50, 56, PURPLE, "B₁", i == 1)
        p.arrow(40, 125 + (i * 2 - 1) * 8, 66, y + 40)
        p.arrow(482, y + 40, 522, 125 + (i * 2 - 1) * 8)
    p.text(538, 131, "Σ", size=18)
    p.arrow(550, 125, 585, 125)
    p.text(598, 131, "y", size=18)
    return p


def pipeline():
    """1f1b on two cards with four micro-batches: forwards, backwards (twice as long), and idle time."""
    p = Picture(620, 170)
    unit, height = 35, 44
    times = [[("F1", 0), ("F2", 1), ("B1", 4), ("F3", 6), ("B2", 7), ("F4", 9), ("B3", 10), ("B4", 13)],
             [("F1", 1), ("B1", 2), ("F2", 4), ("B2", 5), ("F3", 7), ("B3", 8), ("F4", 10), ("B4", 11)]]
    for i, actions in enumerate(times):
        y = 30 + i * 60
        p.text(40, y + height / 2 + 5, f"GPU {i}")
        p.parts.append(f'<rect x="80" y="{y}" width="{15 * unit}" height="{height}" rx="4" fill="none" '
                       f'stroke="{LINE}" stroke-dasharray="4 3"/>')
        for name, start in actions:
            width = unit * (1 if name[0] == "F" else 2)
            p.box(80 + start * unit + 1, y + 2, width - 2, height - 4, BLUE if name[0] == "F" else GREEN, name[1])
    p.arrow(80, 152, 80 + 15 * unit, 152)
    p.text(600, 168, "t")
    return p


def context():
    """A long row in 2n pieces; card r has pieces r and 2n-1-r, which costs each the same; keys and values go round."""
    p = Picture(520, 230)
    colours = (BLUE, GREEN)
    for piece in range(4):
        owner = piece if piece < 2 else 3 - piece
        p.box(70 + piece * 96, 20, 92, 30, colours[owner], str(piece))
        p.arrow(116 + piece * 96, 54, 130 + owner * 260 + (24 if piece > 1 else -24), 98)
    for i in range(2):
        x = 60 + i * 260
        p.card(x, 122, 140, 60, f"GPU {i}")
        p.box(x + 15, 136, 50, 32, colours[i], str(i))
        p.box(x + 75, 136, 50, 32, colours[i], str(3 - i))
    p.arrow(204, 142, 316, 142)
    p.arrow(316, 164, 204, 164)
    p.text(260, 135, "k, v")
    p.text(260, 184, "k, v")
    return p


def hybrid():
    """Two machines: all is shared inside one, only sums of rows go between them."""
    p = Picture(620, 250)
    for host in range(2):
        x = 20 + host * 330
        p.parts.append(f'<rect x="{x}" y="30" width="250" height="170" rx="12" fill="none" stroke="{LINE}" '
                       'stroke-dasharray="7 4"/>')
        for i in range(2):
            cx = x + 20 + i * 120
            p.card(cx, 70, 90, 100, f"GPU {2 * host + i}")
            for half in range(2):
                p.box(cx + 12, 80 + half * 42, 66, 38, BLUE, "W g m" if half == i else "", half == i)
        p.arrow(x + 112, 120, x + 138, 120, is_double=True)
        p.text(x + 125, 222, "W, g")
    p.arrow(274, 120, 346, 120, is_double=True, dashes="6 4")
    p.text(310, 108, "Σ g")
    p.text(310, 140, "1/2")
    return p


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (data_parallel, zero, tensor, pipeline, context, hybrid):
        draw().write(folder / f"{draw.__name__.replace('_', '-')}.svg")


main()
