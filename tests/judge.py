"""The one rule that numbers are judged by: as near to eager as `assert_close` asks, or to fp64 within twice eager's."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def worst_error(actual: Tensor, exact: Tensor) -> float:
    """The largest difference where both are finite."""
    wide = torch.complex128 if actual.is_complex() or exact.is_complex() else torch.float64
    a, x = actual.to(wide), exact.to(wide)
    both = torch.isfinite(a) & torch.isfinite(x)
    return (a - x)[both].abs().max().item() if both.any() else 0.0


def _is_close(actual: Tensor, expected: Tensor) -> bool:
    return _difference(actual, expected) is None


def _difference(actual: Tensor, expected: Tensor) -> str | None:
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True)
    except AssertionError as e:
        return str(e)
    return None


def complaint(actual: Tensor, expected: Tensor, exact: Tensor | None) -> str | None:
    """What is wrong with a result, if anything: its dtype, sizes, strides, or values. `exact` is the answer in fp64."""
    have = (actual.dtype, tuple(actual.shape), _strides(actual))
    wanted = (expected.dtype, tuple(expected.shape), _strides(expected))
    if have != wanted:
        return f"{have}, not {wanted}"
    difference = _difference(actual, expected)
    if difference is None or exact is None or exact.shape != actual.shape:
        return difference
    if not (actual.is_floating_point() or actual.is_complex()):
        return difference
    # Infinities and NaNs are eager's, or those of the exact answer in this dtype.
    special = ~(torch.isfinite(actual) & torch.isfinite(expected))
    rounded = exact.to(actual.dtype)
    if special.any() and not (
        _is_close(actual[special], expected[special]) or _is_close(actual[special], rounded[special])
    ):
        return difference
    ours, theirs = worst_error(actual[~special], exact[~special]), worst_error(expected[~special], exact[~special])
    if math.isfinite(ours) and ours <= 2 * theirs:
        return None
    return f"{difference}\nerror against fp64: {ours}, eager's: {theirs}"


def assert_as_good(actual: Tensor, expected: Tensor, exact: Tensor | None) -> None:
    wrong = complaint(actual, expected, exact)
    assert wrong is None, wrong


def _strides(t: Tensor) -> tuple[int, ...] | None:
    """Those that say anything: of dims of more than one element, of tensors that have some."""
    if t.numel() == 0:
        return None
    return tuple(stride for stride, size in zip(t.stride(), t.shape, strict=True) if size > 1)
