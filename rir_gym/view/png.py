"""A plot or picture as PNG, for places that take no SVG. Needs the extra ``plots``; it is loaded when it is asked for.

Fonts are those of the machine, so the bytes may differ from one machine to another. This module knows SVG text only.
"""

from __future__ import annotations

from rir_gym.errors import MissingDependency, UsageError

__all__ = ["png_of"]

_MOST = 20  # more is no picture for a screen or a page


def png_of(svg: str, *, zoom: float = 2.0) -> bytes:
    """The PNG of an SVG on white, ``zoom`` pixels for each of its own.

    Raises:
        MissingDependency: the extra ``plots`` is not installed.
        UsageError: no SVG, or a zoom outside (0, 20].
    """
    if not 0 < zoom <= _MOST:
        raise UsageError(f"zoom={zoom!r}: more than 0, at most {_MOST}")
    try:
        import resvg_py
    except ImportError as error:
        raise MissingDependency("PNG pictures", "plots") from error
    try:
        return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom, background="#ffffff"))
    except ValueError as error:
        raise UsageError(f"svg={svg[:40]!r}: cannot be drawn ({error})") from error
