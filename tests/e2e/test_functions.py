"""Elementary and special functions against eager, special values included: one graph a dtype holds all of them."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

import kiln
import pytest
import torch
from torch.nn import functional as F

NAMES = """exp2 expm1 log2 log10 log1p tan asin acos atan sinh cosh asinh acosh atanh erfc erfinv lgamma digamma sinc
    logit sigmoid"""
UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {name: getattr(torch, name) for name in NAMES.split()} | {
    "entr": torch.special.entr,
    "logit_eps": lambda x: torch.logit(x, 0.125),
    "fmod_number": lambda x: torch.fmod(x, 3),
}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "atan2": torch.atan2,
    "xlogy": torch.xlogy,
    "xlog1py": torch.special.xlog1py,
}
OF_FLOATS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "hypot": torch.hypot,
    "fmod": torch.fmod,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "softplus": lambda x, y: F.softplus(x),
    "logsigmoid": lambda x, y: F.logsigmoid(x),
    "mish": lambda x, y: F.mish(x),
}


def _every(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    binary = BINARY | (OF_FLOATS if x.is_floating_point() else {})
    return {name: f(x) for name, f in UNARY.items()} | {name: f(x, y) for name, f in binary.items()}


def _check(x: torch.Tensor, y: torch.Tensor) -> None:
    expected = _every(x, y)
    actual = torch.compile(_every, backend="kiln", dynamic=False)(x, y)
    exact = _every(x.double(), y.double())
    assert kiln.counters()["external_calls"] == {}
    assert actual.keys() == expected.keys()
    failures = []
    for name, a in actual.items():
        e, reference = expected[name], exact[name]
        assert (a.dtype, a.shape) == (e.dtype, e.shape), name
        # As close as assert_close asks, or within twice eager's error against fp64.
        close = torch.isclose(a, e, **_tolerance(a.dtype), equal_nan=True)
        close |= (a.double() - reference).abs() <= 2 * (e.double() - reference).abs()
        # Exact zeros keep their signs.
        close &= (reference != 0) | (a.signbit() == e.signbit())
        if not close.all():
            at = (~close).nonzero()[0].item()
            failures.append(f"{name}({x[at].item()!r}, {y[at].item()!r}) is {a[at].item()!r}, not {e[at].item()!r}")
    assert not failures, "\n".join(failures)


def _tolerance(dtype: torch.dtype) -> dict[str, float]:
    return {
        torch.float64: {"rtol": 1e-7, "atol": 1e-7},
        torch.float32: {"rtol": 1.3e-6, "atol": 1e-5},
        torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-5},
        torch.float16: {"rtol": 1e-3, "atol": 1e-5},
    }.get(dtype, {"rtol": 0, "atol": 0})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.usefixtures("server")
def test_floats(dtype: torch.dtype) -> None:
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -2.5, inf, -inf, nan, 1e-7, -1e-7, 30.0, -30.0]
    x = torch.cat([torch.randn(300), torch.rand(300) * 2 - 1, torch.randn(300) * 20])
    pairs = torch.cartesian_prod(torch.tensor(special), torch.tensor(special))
    x, y = torch.cat([x, pairs[:, 0]]), torch.cat([torch.randn(900) * 5, pairs[:, 1]])
    _check(x.to(dtype), y.to(dtype))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.usefixtures("server")
def test_integers(dtype: torch.dtype) -> None:
    """Become the default float."""
    _check(torch.randint(-40, 40, (500,)).to(dtype), torch.randint(-5, 60, (500,)).to(dtype))


@pytest.mark.usefixtures("server")
def test_gradients() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        terms = [x.tan(), x.asin(), x.atanh(), x.erfinv(), x.sinh(), x.exp2(), x.erfc()]
        terms += [(x + 2).lgamma(), (x + 2).log2()]
        return torch.stack(terms).sum()

    x = torch.rand(200).mul(1.8).sub(0.9).requires_grad_()
    f(x).backward()
    expected, x.grad = x.grad, None
    torch.compile(f, backend="kiln")(x).backward()
    torch.testing.assert_close(x.grad, expected)
    assert kiln.counters()["external_calls"] == {}
