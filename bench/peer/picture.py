# SPDX-License-Identifier: Apache-2.0
"""An SVG of bars: a panel for each setting, a bar for each program. Colours of middle lightness, for light and dark pages."""
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, MARGIN, LABEL, BAR, GAP, NOTE = 440, 16, 118, 15, 7, 104
HEAD, PANEL_GAP, COLUMNS = 30, 18, 2


@dataclass
class Bar:
    label: str
    least: float
    median: float
    most: float
    note: str
    is_ours: bool


@dataclass
class Panel:
    title: str
    bars: list[Bar]

    def height(self) -> int:
        return HEAD + len(self.bars) * (BAR + GAP) + PANEL_GAP


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(words)}</text>'


def draw_bar(bar: Bar, x: int, y: float, scale: float) -> list[str]:
    left, middle = x + LABEL, y + BAR / 2
    return [text(left - 6, middle + 4, bar.label, "label"),
            f'<rect x="{left}" y="{y:.1f}" width="{bar.median * scale:.1f}" height="{BAR}" rx="2" '
            f'class="{"ours" if bar.is_ours else "peer"}"/>',
            f'<line x1="{left + bar.least * scale:.1f}" x2="{left + bar.most * scale:.1f}" y1="{middle}" y2="{middle}"/>',
            text(left + bar.most * scale + 6, middle + 4, f"{bar.median:.0f}  ·  {bar.note}")]


def draw_panel(panel: Panel, x: int, y: int) -> list[str]:
    most = max(bar.most for bar in panel.bars)
    scale = (WIDTH - LABEL - NOTE) / most
    parts = [text(x + LABEL, y + 16, panel.title, "title")]
    for i, bar in enumerate(panel.bars):
        parts += draw_bar(bar, x, y + HEAD + i * (BAR + GAP), scale)
    return parts


def svg(panels: list[Panel]) -> str:
    """Bars are medians of tokens a second, lines reach from the least to the most; beside them memory."""
    parts, y = [text(MARGIN, 24, "Real tokens a second (median, min to max) and peak memory a rank", "head")], 40
    for first in range(0, len(panels), COLUMNS):
        row = panels[first:first + COLUMNS]
        for column, panel in enumerate(row):
            parts += draw_panel(panel, MARGIN + column * WIDTH, y)
        y += max(panel.height() for panel in row)
    width = 2 * MARGIN + COLUMNS * WIDTH
    style = ("text{font:12px sans-serif;fill:#78828f}.label{text-anchor:end}.title{font-weight:bold}.head{font-size:15px}"
             ".ours{fill:#3d74b8}.peer{fill:#7d8794;fill-opacity:.6}line{stroke:#b9722a;stroke-width:1.6}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}">'
            f"<style>{style}</style>" + "\n".join(parts) + "</svg>\n")
