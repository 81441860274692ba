"""Signed-distance shapes of the sprite world.

Every function takes `xp` (numpy or torch: the few functions used here have the same names in both), and arrays `x`, `y` in
object units: the object fits the unit circle, x to the right, y down, creatures face right. Distances are in the same units,
negative inside. The renderer (torch) and the judge (numpy) share these definitions.
"""
import math

SHAPES = ["circle", "square", "triangle", "star", "heart", "ring", "fish", "bird", "cat"]
FAR = 9.0


def _circle(xp, x, y, cx, cy, r):
    return xp.sqrt((x - cx) ** 2 + (y - cy) ** 2 + 1e-9) - r


def _ellipse(xp, x, y, cx, cy, rx, ry):
    u, v = (x - cx) / rx, (y - cy) / ry
    k0 = xp.sqrt(u * u + v * v + 1e-9)
    k1 = xp.sqrt((u / rx) ** 2 + (v / ry) ** 2 + 1e-9)
    return k0 * (k0 - 1) / k1


def _polygon(xp, x, y, points):
    """Distance to a convex polygon: the largest half-plane distance. `points` in clockwise order on screen (y down)."""
    d = None
    for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1]):
        ex, ey = x1 - x0, y1 - y0
        n = math.hypot(ex, ey)
        e = (x - x0) * (ey / n) - (y - y0) * (ex / n)
        d = e if d is None else xp.maximum(d, e)
    return d


def _circle_shape(xp, x, y, w):
    return _circle(xp, x, y, 0, 0, 0.9), None, None, None


def _square(xp, x, y, w):
    ax, ay = xp.abs(x) - 0.66, xp.abs(y) - 0.66
    out = xp.sqrt(xp.clip(ax, 0, FAR) ** 2 + xp.clip(ay, 0, FAR) ** 2 + 1e-9)
    return out + xp.clip(xp.maximum(ax, ay), -FAR, 0) - 0.08, None, None, None


def _triangle(xp, x, y, w):
    c, s = 0.78, 0.90
    return _polygon(xp, x, y, [(0, -c - 0.1), (s, 0.62), (-s, 0.62)]), None, None, None


def _star(xp, x, y, w):
    """Distance to a star of five points, the first one up; each wedge is folded onto one edge."""
    ang = xp.arctan2(x, -y)
    rad = xp.sqrt(x * x + y * y + 1e-9)
    step = 2 * math.pi / 5
    a = xp.abs(ang - step * xp.round(ang / step))
    px, py = rad * xp.cos(a), rad * xp.sin(a)
    x0, y0, r1 = 1.0, 0.0, 0.46
    x1, y1 = r1 * math.cos(step / 2), r1 * math.sin(step / 2)
    ex, ey = x1 - x0, y1 - y0
    n = math.hypot(ex, ey)
    return (px - x0) * (ey / n) - (py - y0) * (ex / n), None, None, None


def _heart(xp, x, y, w):
    """Distance to a heart: a square on its corner and two discs on its upper sides."""
    s, q = 0.56, math.sqrt(0.5)
    yy = y - 0.08
    box = (xp.abs(x) + xp.abs(yy)) * q - s
    discs = _circle(xp, xp.abs(x), yy, s * q, -s * q, s)
    return xp.minimum(box, discs), None, None, None


def _ring(xp, x, y, w):
    return xp.abs(_circle(xp, x, y, 0, 0, 0.66)) - 0.25, None, None, None


def _fish(xp, x, y, w):
    """Distance to a fish; `w` in [-1, 1] wags the tail."""
    body = xp.maximum(_circle(xp, x, y, 0.18, 0.62, 1.12), _circle(xp, x, y, 0.18, -0.62, 1.12))
    yt = y + 0.22 * w * xp.clip(-0.4 - x, 0, 1)
    tail = _polygon(xp, x, yt, [(-0.3, 0.0), (-1.0, 0.56), (-1.0, -0.56)])
    fin = _polygon(xp, x, y, [(0.12, 0.10), (-0.34, 0.42), (-0.26, 0.02)])
    return xp.minimum(body, tail), fin, _circle(xp, x, y, 0.62, -0.12, 0.17), _circle(xp, x, y, 0.66, -0.12, 0.09)


def _bird(xp, x, y, w):
    """Distance to a bird; `w` in [-1, 1] flaps the wing."""
    body = _ellipse(xp, x, y, -0.08, 0.14, 0.62, 0.44)
    head = _circle(xp, x, y, 0.50, -0.30, 0.33)
    tail = _polygon(xp, x, y, [(-0.42, 0.12), (-1.0, 0.18), (-0.92, -0.30)])
    beak = _polygon(xp, x, y, [(0.76, -0.44), (1.08, -0.26), (0.76, -0.14)])
    yw = y - 0.28 * w * xp.clip(0.1 - x, 0, 1)
    wing = _ellipse(xp, x, yw, -0.20, 0.06, 0.40, 0.20)
    legs = xp.minimum(xp.minimum(body, head), tail)
    return xp.minimum(legs, beak), wing, _circle(xp, x, y, 0.56, -0.38, 0.13), \
        xp.minimum(_circle(xp, x, y, 0.59, -0.38, 0.07), beak)


def _cat(xp, x, y, w):
    ax = xp.abs(x)
    head = _ellipse(xp, x, y, 0, 0.16, 0.86, 0.72)
    ear = _polygon(xp, ax, y, [(0.70, -0.98), (0.84, 0.05), (0.12, -0.44)])
    eye = _ellipse(xp, ax, y, 0.36, 0.02, 0.17, 0.21)
    nose = _polygon(xp, x, y, [(-0.13, 0.30), (0.13, 0.30), (0.0, 0.46)])
    pupil = _ellipse(xp, ax, y, 0.34, 0.03, 0.08, 0.15)
    return xp.minimum(head, ear), None, eye, xp.minimum(pupil, nose)


_FUNCTIONS = [_circle_shape, _square, _triangle, _star, _heart, _ring, _fish, _bird, _cat]


def layers(xp, shape, x, y, w):
    """Distances of one shape (by index): (silhouette, darker part, white part, black part); None for parts that it lacks."""
    return _FUNCTIONS[shape](xp, x, y, w)
