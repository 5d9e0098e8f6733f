#!/usr/bin/env python3
"""Derives the polynomial coefficients of compiler/mathlib/defs (needs mpmath).

    minimax.py [NAME…]     prints the coefficients of each fit, lowest power first, and its error

A fit is sum(c[k] * x**p[k]) for a function g on an interval, with the largest weighted error |w(x) (fit(x) - g(x))| least: Remez's
exchange on a grid. Then coefficients are rounded to the format one by one, the lowest power first, and after each the others are
fitted again, so that later ones make up for earlier ones' rounding (a poor man's fpminimax); unless rounding all at once does no
harm, or less.
"""

import struct
import sys

import mpmath
from mpmath import mp, mpf

mp.prec = 240
GRID = 1500


def round_to(value, fmt):
    """value rounded to the nearest f32 or f64, as mpf; both steps of f32 are far enough apart here."""
    if fmt == "f64":
        return mpf(float(value))
    return mpf(struct.unpack("f", struct.pack("f", float(value)))[0])


def grid(a, b):
    """Chebyshev nodes, so that the ends are looked at closely."""
    a, b = mpf(a), mpf(b)
    return [(a + b) / 2 - (b - a) / 2 * mpmath.cos(mpmath.pi * k / (GRID - 1)) for k in range(GRID)]


def remez(xs, gs, ws, powers):
    """Coefficients for `powers` and the error, at points xs with values gs and weights ws."""
    n = len(powers)
    rows = [[x**p for p in powers] for x in xs]
    points = [round((k + 0.1) * (len(xs) - 1) / (n + 0.3)) for k in range(n + 1)]  # symmetric ones may be singular
    best = None
    for _ in range(30):
        m = mpmath.matrix(n + 1, n + 1)
        rhs = mpmath.matrix(n + 1, 1)
        for i, at in enumerate(points):
            for j in range(n):
                m[i, j] = rows[at][j] * ws[at]
            m[i, n] = (-1) ** i
            rhs[i] = gs[at] * ws[at]
        try:
            solution = mpmath.lu_solve(m, rhs)
        except ZeroDivisionError:  # the points have collapsed
            break
        coefficients = [solution[j] for j in range(n)]
        errors = [w * (sum(c * r for c, r in zip(coefficients, row)) - g) for row, g, w in zip(rows, gs, ws)]
        worst = max(abs(e) for e in errors)
        if best is None or worst < best[1]:
            best = (coefficients, worst)
        extrema = alternating(errors, n + 1)
        if extrema is None or extrema == points:
            break
        points = extrema
        if worst < abs(solution[n]) * mpf("1.0001"):
            break
    return best


def alternating(errors, count):
    """Places of the largest errors with alternating signs."""
    peaks = []
    for i, e in enumerate(errors):
        if peaks and (e > 0) == (errors[peaks[-1]] > 0):
            if abs(e) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > count:
        k = min(range(len(peaks)), key=lambda i: abs(errors[peaks[i]]))
        if len(peaks) - count > 1 and 0 < k < len(peaks) - 1:
            del peaks[k : k + 2]  # two neighbours, so that the signs still alternate
        else:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks if len(peaks) == count else None


def fit(g, w, interval, powers, fmt):
    """Rounded coefficients and the weighted error that is left."""
    a, b = (mpf(end) for end in interval)
    xs = [x for x in grid(a, b) if abs(x) > (b - a) * mpf("1e-7")]  # g may be 0/0 at 0
    gs = [g(x) for x in xs]
    ws = [w(x) for x in xs]
    unrounded, least = remez(xs, gs, ws, powers)
    together = [round_to(c, fmt) for c in unrounded]
    error = error_of(together, powers, xs, gs, ws)
    if error < least * mpf("1.1"):
        return together, error
    fixed = []
    for k in range(len(powers)):
        rest = [gg - sum(c * x**p for c, p in zip(fixed, powers)) for x, gg in zip(xs, gs)]
        coefficients, _ = remez(xs, rest, ws, powers[k:])
        fixed.append(round_to(coefficients[0], fmt))
    return min((together, error), (fixed, error_of(fixed, powers, xs, gs, ws)), key=lambda result: result[1])


def error_of(coefficients, powers, xs, gs, ws):
    """The largest weighted error."""
    values = (sum(c * x**p for c, p in zip(coefficients, powers)) for x in xs)
    return max(abs(w * (value - g)) for value, g, w in zip(values, gs, ws))


def expm1_over_square(x):
    """(e^x - 1 - x) / x^2."""
    return sum(x**k / mpmath.factorial(k + 2) for k in range(40)) if abs(x) < 1 else (mpmath.exp(x) - 1 - x) / x**2


def atanh_rest(z):
    """(2 atanh(s) - 2 s) / s^3 for z = s^2."""
    if z < mpf("1e-12"):
        return mpf(2) / 3 + 2 * z / 5
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) - 2 * s) / s**3


def atanh_rest2(z):
    """(2 atanh(s) - 2 s - 2/3 s^3) / s^5 for z = s^2."""
    return (atanh_rest(z) - mpf(2) / 3) / z


def log1p_rest(f):
    """(log(1 + f) - f + f^2 / 2) / f^3."""
    if abs(f) < mpf("1e-20"):
        return mpf(1) / 3 - f / 4
    return (mpmath.log1p(f) - f + f * f / 2) / f**3


def sin_rest(z):
    """(sin(x) - x) / x^3 for z = x^2."""
    x = mpmath.sqrt(z)
    return (mpmath.sin(x) - x) / x**3


def cos_rest(z):
    """(cos(x) - 1 + x^2 / 2) / x^4 for z = x^2."""
    x = mpmath.sqrt(z)
    return (mpmath.cos(x) - 1 + z / 2) / z**2


def tanh_rest(z):
    """(tanh(x) - x) / x^3 for z = x^2."""
    x = mpmath.sqrt(z)
    return (mpmath.tanh(x) - x) / x**3


def erf_rest(z):
    """erf(x) / x - 1 for z = x^2."""
    x = mpmath.sqrt(z)
    return mpmath.erf(x) / x - 1


def erfc_exponent(t):
    """-log(erfc(t)) / t - 1, so that erf(t) = 1 - exp(-(t + t * this))."""
    return -mpmath.log(mpmath.erfc(t)) / t - 1


def erf_far_weight(t):
    """Relative error of erf for an error of 1 in q."""
    return t * mpmath.erfc(t) / mpmath.erf(t)


def exp2_rest(x):
    """(2^x - 1) / x."""
    return mpmath.expm1(x * mpmath.log(2)) / x


def atan_rest(z):
    """(atan(x) - x) / x^3 for z = x^2."""
    x = mpmath.sqrt(z)
    return (mpmath.atan(x) - x) / x**3


def asin_rest(z):
    """(asin(x) - x) / x^3 for z = x^2."""
    x = mpmath.sqrt(z)
    return (mpmath.asin(x) - x) / x**3


def sinh_rest(z):
    """(sinh(x) - x) / x^3 for z = x^2."""
    x = mpmath.sqrt(z)
    return (mpmath.sinh(x) - x) / x**3


def scaled_erfc(t, k):
    """(1 + 2 x) e^(x^2) erfc(x) for t = (x - k) / (x + k), so x = k (1 + t) / (1 - t); 2 / sqrt(pi) at t = 1."""
    if 1 - t < mpf("1e-9"):
        return 2 / mpmath.sqrt(mpmath.pi)
    x = k * (1 + t) / (1 - t)
    if x > 1000:
        return (1 + 2 * x) / (x * mpmath.sqrt(mpmath.pi)) * (1 - 1 / (2 * x * x) + 3 / (4 * x**4))
    return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)


def erfinv_over_x(w):
    """erfinv(x) / x for w = -log(1 - x^2)."""
    if w < mpf("1e-30"):
        return mpmath.sqrt(mpmath.pi) / 2
    x = mpmath.sqrt(-mpmath.expm1(-w))
    # Newton on log(erfc), which is nearly a parabola; 1 - x is exp(-w) / (1 + x).
    target = mpmath.log(mpmath.exp(-w) / (1 + x))
    y = mpmath.sqrt(w) if w > 4 else x * mpmath.sqrt(mpmath.pi) / 2
    for _ in range(60):
        e = mpmath.erfc(y)
        step = (mpmath.log(e) - target) * e * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)
        y += step
        if abs(step) < mpf("1e-45") * y:
            break
    return y / x


def erfinv_tail(s):
    """The same for s = sqrt(w)."""
    return erfinv_over_x(s * s)


def loggamma_rest(u):
    """log(gamma(2 + u)) / u."""
    return mpmath.loggamma(2 + u) / u


def stirling_rest(w):
    """z (log(gamma(z)) - (z - 1/2) log(z) + z - log(2 pi) / 2) for w = 1 / z^2."""
    z = 1 / mpmath.sqrt(w)
    if z > 300:
        return mpf(1) / 12 - w / 360 + w * w / 1260
    return z * (mpmath.loggamma(z) - (z - mpf("0.5")) * mpmath.log(z) + z - mpmath.log(2 * mpmath.pi) / 2)


def digamma_rest(w):
    """z^2 (log(z) - 1 / (2 z) - digamma(z)) for w = 1 / z^2."""
    z = 1 / mpmath.sqrt(w)
    if z > 300:
        return mpf(1) / 12 - w / 120 + w * w / 252
    return z * z * (mpmath.log(z) - 1 / (2 * z) - mpmath.digamma(z))


LN2_2 = mpmath.log(2) / 2
S_MAX = (mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)  # of log's s = (m - 1) / (m + 1)
R_MAX = mpmath.pi / 4 * mpf("1.0001")

# name: (function, weight, interval, powers, format)
FITS = {
    # e^r = 1 + r + r^2 q(r); the error counts relative to e^r, near 1.
    "exp.f32": (expm1_over_square, lambda x: x * x, (-LN2_2, LN2_2), range(5), "f32"),
    "exp.f64": (expm1_over_square, lambda x: x * x, (-LN2_2, LN2_2), range(11), "f64"),
    # e^r - 1 = r + r^2 q(r), relative to r.
    "expm1.f32": (expm1_over_square, lambda x: abs(x), (-LN2_2, LN2_2), range(6), "f32"),
    "expm1.f64": (expm1_over_square, lambda x: abs(x), (-LN2_2, LN2_2), range(12), "f64"),
    # 2^r = 1 + r q(r).
    "exp2.f32": (exp2_rest, lambda x: abs(x), (-0.5, 0.5), range(6), "f32"),
    # log(1 + f) = f - f^2/2 + f^3 q(f), relative to f.
    "log.f32": (log1p_rest, lambda f: f * f, (mpmath.sqrt(2) / 2 - 1, mpmath.sqrt(2) - 1), range(9), "f32"),
    # 2 atanh(s) = 2 s + s^3 q(s^2).
    "log.f64": (atanh_rest, lambda z: z, (0, S_MAX**2), range(8), "f64"),
    # sin(r) = r + r^3 q(r^2), cos(r) = 1 - r^2/2 + r^4 q(r^2).
    "sin.f64": (sin_rest, lambda z: z, (0, R_MAX**2), range(6), "f64"),
    "cos.f64": (cos_rest, lambda z: z**2, (0, R_MAX**2), range(6), "f64"),
    # tanh(x) = x + x^3 q(x^2) near 0.
    "tanh.f32.near": (tanh_rest, lambda z: z, (0, mpf("0.75") ** 2), range(6), "f32"),
    "tanh.f64.near": (tanh_rest, lambda z: z, (0, mpf("0.75") ** 2), range(12), "f64"),
    # sinh(x) = x + x^3 q(x^2) near 0.
    "sinh.f32": (sinh_rest, lambda z: z, (0, 1), range(4), "f32"),
    "sinh.f64": (sinh_rest, lambda z: z, (0, 1), range(7), "f64"),
    # atan(x) = x + x^3 q(x^2) up to tan(pi/8).
    "atan.f32": (atan_rest, lambda z: z, (0, mpmath.tan(mpmath.pi / 8) ** 2), range(5), "f32"),
    "atan.f64": (atan_rest, lambda z: z, (0, mpmath.tan(mpmath.pi / 8) ** 2), range(11), "f64"),
    # asin(x) = x + x^3 q(x^2) up to 1/2.
    "asin.f32": (asin_rest, lambda z: z, (0, mpf("0.25")), range(6), "f32"),
    "asin.f64": (asin_rest, lambda z: z, (0, mpf("0.25")), range(12), "f64"),
    # pow: 2 atanh(s) = 2 s + 2/3 s^3 + s^5 q(s^2), 2^r = 1 + r q(r).
    "log.pow64": (atanh_rest2, lambda z: z * z, (0, S_MAX**2), range(7), "f64"),
    "exp2.pow64": (exp2_rest, lambda x: abs(x), (-0.5, 0.5), range(12), "f64"),
    "erf.f64.near": (erf_rest, lambda z: 1 / (1 + erf_rest(z)), (0, 1), range(12), "f64"),
    "erf.f64.far": (erfc_exponent, erf_far_weight, (1, 6), range(18), "f64"),
    # For results that are rounded to f32: the same, log2, and 2^r = 1 + r q(r).
    "sin.f32": (sin_rest, lambda z: z, (0, R_MAX**2), range(4), "f64"),
    "cos.f32": (cos_rest, lambda z: z**2, (0, R_MAX**2), range(4), "f64"),
    "log.pow32": (atanh_rest, lambda z: z, (0, S_MAX**2), range(5), "f64"),
    "exp2.pow32": (exp2_rest, lambda x: abs(x), (-0.5, 0.5), range(7), "f64"),
    # (1 + 2 x) e^(x^2) erfc(x) for x >= 0, by (x - k) / (x + k).
    "erfc.f32": (lambda t: scaled_erfc(t, 2), lambda t: 1 / scaled_erfc(t, 2), (-1, mpf("0.68")), range(12), "f64"),
    "erfc.f64": (lambda t: scaled_erfc(t, 4), lambda t: 1 / scaled_erfc(t, 4), (-1, mpf("0.76")), range(25), "f64"),
    # erfinv(x) = x q(w - c) for w = -log(1 - x^2), x q(sqrt(w) - c) further out; c is the middle of the interval.
    "erfinv.f32.near": (lambda v: erfinv_over_x(v + 2.5), lambda v: 1, (-2.5, 2.5), range(12), "f64"),
    "erfinv.f32.far": (lambda v: erfinv_tail(v + 3.125), lambda v: 1 / (v + 3.125), (-0.9, 0.9), range(12), "f64"),
    "erfinv.f64.near": (lambda v: erfinv_over_x(v + 3.125), lambda v: 1, (-3.125, 3.125), range(26), "f64"),
    "erfinv.f64.far": (lambda v: erfinv_tail(v + 4.25), lambda v: 1 / (v + 4.25), (-1.76, 1.8), range(30), "f64"),
    # log(gamma(2 + u)) = u q(u); log(gamma(z)) = (z - 1/2) log(z) - z + log(2 pi) / 2 + q(1 / z^2) / z.
    "lgamma.f32": (loggamma_rest, lambda u: 1, (-0.5, 0.5), range(12), "f64"),
    "lgamma.f64": (loggamma_rest, lambda u: 1, (-0.5, 0.5), range(18), "f64"),
    "stirling.f32": (stirling_rest, lambda w: mpmath.sqrt(w), (0, mpf(1) / 49), range(3), "f64"),
    "stirling.f64": (stirling_rest, lambda w: mpmath.sqrt(w), (0, mpf(1) / 49), range(7), "f64"),
    # digamma(z) = log(z) - 1 / (2 z) - q(1 / z^2) / z^2.
    "digamma.f32": (digamma_rest, lambda w: w, (0, mpf(1) / 64), range(3), "f64"),
    "digamma.f64": (digamma_rest, lambda w: w, (0, mpf(1) / 64), range(7), "f64"),
    # erf(x) = x + x q(x^2) near 0; erf(t) = 1 - exp(-(t + t q(t))) further out.
    "erf.f32.near": (erf_rest, lambda z: 1 / (1 + erf_rest(z)), (0, mpf("0.927734375") ** 2), range(7), "f32"),
    "erf.f32.far": (erfc_exponent, erf_far_weight, (mpf("0.927734375"), mpf("3.95")), range(7), "f32"),
}


def main():
    names = sys.argv[1:] or sorted(FITS)
    for name in names:
        function, weight, interval, powers, fmt = FITS[name]
        coefficients, error = fit(function, weight, interval, list(powers), fmt)
        print(f"{name}: error 2^{mpmath.nstr(mpmath.log(error, 2), 5)}")
        for c in coefficients:
            print(f"    {float(c).hex()}")


if __name__ == "__main__":
    main()
