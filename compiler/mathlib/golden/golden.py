#!/usr/bin/env python3
"""Writes golden.inc: points of every function and its value there to 64 bits, by mpmath (so independent of any libm).

    golden.py > golden.inc

GOLDEN(op, x, y, value): x and y are exact in f32 where `f32` is 1, and the value is that of the exact argument.
"""

import random
import struct

import mpmath
from mpmath import mp, mpf

mp.prec = 3000

FUNCTIONS = {
    "kExp": mpmath.exp,
    "kLog": mpmath.log,
    "kSin": mpmath.sin,
    "kCos": mpmath.cos,
    "kTanh": mpmath.tanh,
    "kErf": mpmath.erf,
    "kExp2": lambda x: mpf(2) ** x,
    "kExpm1": mpmath.expm1,
    "kLog2": lambda x: mpmath.log(x, 2),
    "kLog10": mpmath.log10,
    "kLog1p": mpmath.log1p,
    "kTan": mpmath.tan,
    "kAsin": mpmath.asin,
    "kAcos": mpmath.acos,
    "kAtan": mpmath.atan,
    "kSinh": mpmath.sinh,
    "kCosh": mpmath.cosh,
    "kAsinh": mpmath.asinh,
    "kAcosh": mpmath.acosh,
    "kAtanh": mpmath.atanh,
    "kErfc": mpmath.erfc,
    "kErfinv": mpmath.erfinv,
    "kLgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
    "kDigamma": mpmath.digamma,
}

# Where random points are drawn, if not in (-6, 6).
RANGES = {
    "kLog": (0, 4),
    "kLog2": (0, 4),
    "kLog10": (0, 4),
    "kLog1p": (-1, 4),
    "kAsin": (-1, 1),
    "kAcos": (-1, 1),
    "kAcosh": (1, 9),
    "kAtanh": (-1, 1),
    "kErfinv": (-1, 1),
    "kDigamma": (-6, 20),
    "kLgamma": (-6, 20),
}

POINTS = {
    "kExp": [0.5, -0.5, 1.0, -1.0, 10.25, -10.25, 88.5, -87.0, -103.5, 709.5, -744.5, 1e-10, 0.34657359, 20.5],
    "kLog": [0.5, 2.0, 0.70710678, 1.41421356, 0.99999994, 1.0000001, 1e-40, 5e-324, 1e300, 3.5, 1e-310, 0.75],
    "kSin": [0.5, 1.5707963267948966, 3.141592653589793, 1e5, 1e22, 2.0**100, 2.0**120 + 2.0**100, 6381956970095103.0 * 2.0**797,
             1.7976931348623157e308, 5e-324, 1e-20, 355.0, 12345678.0, 2.0**193, 2.0**194, 2.0**478, 2.0**762, 2.0**904],
    "kCos": [0.5, 1.5707963267948966, 3.141592653589793, 1e5, 1e22, 2.0**100, 2.0**120 + 2.0**100, 6381956970095103.0 * 2.0**797,
             1.7976931348623157e308, 1e-20, 355.0, 12345678.0, 2.0**193, 2.0**194, 2.0**478, 2.0**762, 2.0**904],
    "kTanh": [0.1, -0.1, 0.74999, 0.75, 1.0, -5.0, 9.0, 19.0, 25.0, 1e-20, 5e-324],
    "kExp2": [0.5, -0.5, 10.25, -140.5, 127.5, -1060.5, 1023.5, 1e-10],
    "kExpm1": [1e-10, -1e-20, 0.34, -0.35, 1.0, -1.0, 20.0, -17.0, 88.5, 709.5],
    "kLog2": [0.75, 1.5, 0.99999994, 1.0000001, 1e-40, 5e-324, 1e300],
    "kLog10": [0.75, 1.5, 0.99999994, 1.0000001, 1e-40, 5e-324, 1e300, 1000.0],
    "kLog1p": [1e-10, -1e-20, 0.41, -0.3, -0.99999994, 1e10, 1e300],
    "kTan": [0.5, 1.5707963267948966, 3.141592653589793, 1e5, 1e22, 2.0**120 + 2.0**100,
             6381956970095103.0 * 2.0**797],
    "kAsin": [0.5, -0.5, 0.50000006, 0.99999994, -0.9999999999999999, 1e-10],
    "kAcos": [0.5, -0.5, 0.50000006, 0.99999994, -0.9999999999999999, 1e-10],
    "kAtan": [0.41, 0.415, 2.4, 2.42, 1.0, 1e10, -1e-10],
    "kSinh": [0.99999, 1.0, 89.0, -89.25, 710.25, 1e-10],
    "kCosh": [0.5, 1.0, 89.0, -89.25, 710.25, 1e-10],
    "kAsinh": [1e-10, 0.5, -1.0, 1e10, 1e300],
    "kAcosh": [1.0000001, 1.0000000000000002, 2.0, 1e10, 1e300],
    "kAtanh": [1e-10, 0.5, -0.99999994, 0.9999999999999999],
    "kErfc": [0.1, -0.1, 1.0, 4.0, 9.5, 10.05, 26.2, 27.2, -5.0],
    "kErfinv": [0.1, -0.5, 0.99, 0.996, 0.99999994, 0.9999999999999999],
    "kLgamma": [1e-10, 0.5, 1.0000001, 1.5, 1.9999999, 2.5, 6.9999, 7.0, 1e10, 1e30, -0.5, -2.5, -100.25],
    "kDigamma": [1e-10, 0.5, 1.0, 1.4616321449683622, 7.9999, 8.0, 1e10, -0.5, -2.5, -100.25],
    "kErf": [0.1, -0.1, 0.92773, 0.9278, 0.99999, 1.0, 2.5, -3.5, 3.9, 5.5, 7.0, 1e-20],
}

POWERS = [(2.0, 0.5), (2.0, -0.5), (10.0, 3.0), (0.1, 20.5), (1.0000001, 1e6), (0.99999994, -1e7), (3.0, 40.0), (1.5, 100.25),
          (1e-40, 0.25), (1.0000000000000002, 1e17), (0.9999999999999999, 1e18), (2.0, -1074.0), (2.0, 1023.5), (-2.0, 3.0),
          (-3.0, 4.0), (5e-324, 0.5), (1.7976931348623157e308, -0.999), (0.7071067811865476, 2000.0)]


def to_f32(x):
    """x itself if it is a value of f32, else None."""
    try:
        y = struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return None
    return x if y == x else None


def literal(value):
    """A long double literal: hexadecimal, 64 bits, rounded to nearest."""
    if value == 0:
        return "0x0p+0L"
    sign = "-" if value < 0 else ""
    mantissa, exponent = mpmath.frexp(abs(value))
    digits = int(mpmath.nint(mantissa * mpf(2) ** 64))
    return f"{sign}0x{digits:x}p{int(exponent) - 64:+d}L"


def emit(op, x, y, value):
    f32 = int(to_f32(x) is not None and to_f32(y) is not None)
    print(f"GOLDEN({op}, {f32}, {float(x).hex()}, {float(y).hex()}, {literal(value)})")


def main():
    random.seed(1)
    print("// Written by golden.py.")
    for op, function in FUNCTIONS.items():
        points = list(POINTS[op])
        points += [struct.unpack("f", struct.pack("f", x))[0] for x in points if abs(x) < 3e38]
        for _ in range(24):
            x = random.uniform(*RANGES.get(op, (-6, 6)))
            points.append(struct.unpack("f", struct.pack("f", x))[0])
            points.append(x)
        low, high = RANGES.get(op, (None, None))
        inside = {p for p in points if low is None or (low <= p and (high != 1 or p <= high))}
        for x in sorted(p for p in inside if p != low and p != (1 if high == 1 else None)):
            emit(op, x, 0.0, function(mpf(x)))
    for _ in range(40):
        POWERS.append((random.uniform(0.1, 10), random.uniform(-20, 20)))
    for x, y in POWERS:
        emit("kPow", x, y, mpmath.re(mpf(x) ** mpf(y)))
    for _ in range(40):
        x, y = random.uniform(-9, 9), random.uniform(-9, 9) * 10.0 ** random.randint(-4, 4)
        emit("kAtan2", x, y, mpmath.atan2(x, y))
        emit("kHypot", x, y, mpmath.sqrt(mpf(x) ** 2 + mpf(y) ** 2))


if __name__ == "__main__":
    main()
