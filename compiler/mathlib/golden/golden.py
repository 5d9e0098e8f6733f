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
}

POINTS = {
    "kExp": [0.5, -0.5, 1.0, -1.0, 10.25, -10.25, 88.5, -87.0, -103.5, 709.5, -744.5, 1e-10, 0.34657359, 20.5],
    "kLog": [0.5, 2.0, 0.70710678, 1.41421356, 0.99999994, 1.0000001, 1e-40, 5e-324, 1e300, 3.5, 1e-310, 0.75],
    "kSin": [0.5, 1.5707963267948966, 3.141592653589793, 1e5, 1e22, 2.0**100, 2.0**120 + 2.0**100, 6381956970095103.0 * 2.0**797,
             1.7976931348623157e308, 5e-324, 1e-20, 355.0, 12345678.0, 2.0**193, 2.0**194, 2.0**478, 2.0**762, 2.0**904],
    "kCos": [0.5, 1.5707963267948966, 3.141592653589793, 1e5, 1e22, 2.0**100, 2.0**120 + 2.0**100, 6381956970095103.0 * 2.0**797,
             1.7976931348623157e308, 1e-20, 355.0, 12345678.0, 2.0**193, 2.0**194, 2.0**478, 2.0**762, 2.0**904],
    "kTanh": [0.1, -0.1, 0.74999, 0.75, 1.0, -5.0, 9.0, 19.0, 25.0, 1e-20, 5e-324],
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
            x = random.uniform(0, 4) if op == "kLog" else random.uniform(-6, 6)
            points.append(struct.unpack("f", struct.pack("f", x))[0])
            points.append(x)
        for x in sorted({p for p in points if op != "kLog" or p > 0}):
            emit(op, x, 0.0, function(mpf(x)))
    for _ in range(40):
        POWERS.append((random.uniform(0.1, 10), random.uniform(-20, 20)))
    for x, y in POWERS:
        emit("kPow", x, y, mpmath.re(mpf(x) ** mpf(y)))


if __name__ == "__main__":
    main()
