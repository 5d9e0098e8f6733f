#!/usr/bin/env python3
"""Prints the windows of 1 / (2 pi) that defs/turns.cc multiplies with (needs mpmath)."""

import mpmath
from mpmath import mp, mpf

mp.prec = 3000


def chunks(skip, count, bits):
    """`count` chunks of `bits` bits of 1 / (2 pi), from behind the bit of weight 2^-skip, times 2^skip."""
    rest = mpmath.frac(mpf(2) ** skip / (2 * mpmath.pi))
    out = []
    for j in range(count):
        unit = mpf(2) ** (-bits * (j + 1))
        chunk = mpmath.floor(rest / unit) * unit
        rest -= chunk
        out.append(float(chunk).hex())
    return out


def main():
    print("f32:", ", ".join(chunks(0, 7, 29)))
    # |x| < 2^194, then 142 exponents each. Below a lowest exponent e, bits of weight 2^(52 - e) and more give whole turns.
    for low in [None, 194, 336, 478, 620, 762, 904]:
        skip = 0 if low is None else low - 52
        print(f"f64 from 2^{low}, skip {skip}:", ", ".join(chunks(skip, 6, 53)))


if __name__ == "__main__":
    main()
