"""How the map looks: sizes in pixels, and the style sheet with its light and its dark colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MARGIN: Final = 24.0
"""Around the picture."""

NAME: Final = 14.0
WORDS: Final = 11.5
SMALL: Final = 10.0
"""Sizes of the fonts: of names, of what stands below them and in the legend, of marks and labels."""

_LIGHT: Final = {
    "paper": "#ffffff",
    "box": "#f6f8fa",
    "ink": "#1c2530",
    "words": "#55626f",
    "frame": "#c3ccd5",
    "route": "#7a8793",
    "entry": "#17825a",
    "spawn": "#8448cf",
    "join": "#b06f10",
    "join-box": "#fdf3df",
    "entry-box": "#e9f6f0",
    "writer": "#2c6be0",
    "reader": "#a3afba",
    "mark": "#e7ebef",
}

_DARK: Final = {
    "paper": "#12161b",
    "box": "#1c222a",
    "ink": "#e8edf2",
    "words": "#9ba8b5",
    "frame": "#3b4652",
    "route": "#82909d",
    "entry": "#3fbf8c",
    "spawn": "#b98cf0",
    "join": "#e0a84a",
    "join-box": "#33291a",
    "entry-box": "#152b24",
    "writer": "#6ba0ff",
    "reader": "#66727e",
    "mark": "#2c353f",
}


def _rules(colour: Mapping[str, str]) -> str:
    rules = {
        ".paper": f"fill:{colour['paper']}",
        ".casing": f"stroke:{colour['paper']}",
        ".box": f"fill:{colour['box']};stroke:{colour['frame']}",
        ".name": f"fill:{colour['ink']}",
        ".words": f"fill:{colour['words']}",
        ".mark": f"fill:{colour['mark']}",
        ".writer .bar": f"fill:{colour['writer']}",
        ".reader .bar": f"fill:{colour['reader']}",
        ".join .box": f"fill:{colour['join-box']};stroke:{colour['join']}",
        ".join .words": f"fill:{colour['join']}",
        ".door .box": f"fill:{colour['entry-box']};stroke:{colour['entry']}",
        ".dot": f"fill:{colour['entry']}",
        **{
            f".{kind} {part}": f"{paint}:{colour[shade]}"
            for kind, shade in (("route", "route"), ("entry", "entry"), ("spawn", "spawn"), ("release", "join"))
            for part, paint in ((".line", "stroke"), (".head", "fill"))
        },
        ".spawn .head": f"fill:{colour['paper']};stroke:{colour['spawn']}",
    }
    return "".join(f".tower-map {selector}{{{rule}}}" for selector, rule in rules.items())


STYLE: Final = (
    '.tower-map{font-family:system-ui,"Segoe UI",Roboto,"Helvetica Neue","Liberation Sans",Arial,sans-serif}'
    f".tower-map .name{{font-size:{NAME:g}px;font-weight:600}}"
    f".tower-map .words{{font-size:{WORDS:g}px}}"
    f".tower-map .small{{font-size:{SMALL:g}px}}"
    ".tower-map .line,.tower-map .casing{fill:none;stroke-linecap:round}"
    ".tower-map .line{stroke-width:1.5}.tower-map .release .line{stroke-width:2}"
    ".tower-map .casing{stroke-width:5}"
    ".tower-map .spawn .line{stroke-dasharray:6 5}.tower-map .spawn .head{stroke-width:1.3}"
    ".tower-map .inner{fill:none;stroke-width:1}"
    ".tower-map .disabled{opacity:.5}.tower-map .disabled .box{stroke-dasharray:4 3}"
    + _rules(_LIGHT)
    + f"@media (prefers-color-scheme:dark){{{_rules(_DARK)}}}"
)
