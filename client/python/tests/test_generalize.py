"""Dynamo's graph with symbols for its sizes: what it computes, what it is keyed by, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kiln.errors import KilnError
from kiln.generalize import General, generalize
from kiln.guards import EntryState
from kiln.lookup import Lookup
from kiln.proto import compile_pb2, generalization_pb2, graph_pb2
from kiln.torch_graph import map_integers
from torch import Tensor, fx
from torch.nn import functional as F

_E = graph_pb2.SymExpr


def program(x: Tensor, y: Tensor) -> Tensor:
    b, s, d = x.shape
    z = F.pad(x.view(b * s, d), (1, 2), value=1.5)[1 : b + 1, ::2]
    return torch.cat((z, y.view(b, -1)), dim=1).reshape(-1) * (2 * b + 3)


def captured(f: Callable[..., Any], *args: Any) -> tuple[fx.GraphModule, list[Any]]:
    found: list[Any] = []

    def backend(gm: fx.GraphModule, example_inputs: list[Any]) -> Any:
        found.append((gm, example_inputs))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(f, backend=backend, dynamic=False)(*args)
    return found[0]  # type: ignore[no-any-return]


def integers_of(gm: fx.GraphModule) -> list[int]:
    found: list[int] = []

    def take(i: int) -> int:
        found.append(i)
        return i

    for node in gm.graph.nodes:
        if node.op.startswith("call_"):
            for arg in (*node.args, *(node.kwargs[name] for name in sorted(node.kwargs))):
                map_integers(arg, take)
    return found


def integers_within(arg: graph_pb2.Arg) -> list[int]:
    kind = arg.WhichOneof("kind")
    if kind == "i":
        return [arg.i]
    if kind in ("list", "tuple", "dict", "slice"):
        return [i for item in getattr(arg, kind).items for i in integers_within(item)]
    return []


def lookup_of(gm: fx.GraphModule, examples: list[Any], entry: EntryState) -> Lookup:
    return Lookup(gm, examples, entry, compile_pb2.CompileRequest())


class Case:
    """`program` at one size: (b, s, 6) and (b, 4)."""

    def __init__(self, b: int, s: int) -> None:
        self.args = [torch.randn(b, s, 6), torch.randn(b, 4).requires_grad_()]
        self.gm, self.inputs = captured(program, *self.args)
        self.entry = EntryState.now(self.gm, self.inputs)
        self.guards = lookup_of(self.gm, self.inputs, self.entry).request.guards

    def values(self) -> list[int]:
        inputs = [n for t in self.inputs for n in (*t.shape, *t.stride(), t.storage_offset())]
        return [*inputs, *integers_of(self.gm)]

    def generalize(self, generalization: generalization_pb2.Generalization) -> General:
        return generalize(self.gm, self.inputs, self.entry, self.guards, generalization)


def general() -> generalization_pb2.Generalization:
    """By hand, from two sizes that have no number but the constant ones in common."""
    result = generalization_pb2.Generalization()
    exprs: dict[Callable[[int, int], int], int] = {}
    for _ in range(2):
        result.syms.symbols.add(min=2, max=(1 << 63) - 1)
    for op, value, args in (
        (_E.SYMBOL, 0, []), (_E.SYMBOL, 1, []), (_E.MUL, 0, [0, 1]), (_E.CONST, 6, []), (_E.MUL, 0, [1, 3]),
        (_E.CONST, 1, []), (_E.ADD, 0, [0, 5]), (_E.CONST, 2, []), (_E.MUL, 0, [0, 7]), (_E.CONST, 3, []),
        (_E.ADD, 0, [8, 9]),
    ):  # fmt: skip
        result.syms.exprs.add(op=op, value=value, args=args)
    exprs[lambda b, s: b] = 0
    exprs[lambda b, s: s] = 1
    exprs[lambda b, s: b * s] = 2
    exprs[lambda b, s: s * 6] = 4
    exprs[lambda b, s: b + 1] = 6
    exprs[lambda b, s: 2 * b + 3] = 10
    for position, pair in enumerate(zip(Case(11, 13).values(), Case(17, 23).values(), strict=True)):
        if pair[0] != pair[1]:
            (expr,) = [e for f, e in exprs.items() if (f(11, 13), f(17, 23)) == pair]
            result.places.add(value=position, expr=expr)
    return result


def test_integers_are_in_the_messages_order() -> None:
    case = Case(5, 7)
    request = lookup_of(case.gm, case.inputs, case.entry).request
    written = [i for node in request.graph.nodes for arg in node.args for i in integers_within(arg)]
    assert len(written) > 8
    assert integers_of(case.gm) == written


def test_it_computes_the_same() -> None:
    case = Case(5, 7)
    made = case.generalize(general())
    assert made.hints == (5, 7)
    (want,), (have,) = case.gm(*case.inputs), made.gm(5, 7, *case.inputs)
    assert torch.equal(want, have)
    (other,) = made.gm(3, 4, torch.ones(3, 4, 6), torch.ones(3, 4))
    assert torch.equal(other, program(torch.ones(3, 4, 6), torch.ones(3, 4)))


def test_every_size_has_the_same_key() -> None:
    keys = set()
    for b, s in ((5, 7), (4, 4), (100, 2)):
        made = Case(b, s).generalize(general())
        with made.tracing():
            keys.add(lookup_of(made.gm, made.examples, made.entry).request.SerializeToString(deterministic=True))
    assert len(keys) == 1


def test_inputs_are_as_dynamos() -> None:
    made = Case(5, 7).generalize(general())
    _, _, x, y = made.fakes()
    b, s = made.examples[:2]
    sizes = [(n.node.expr if isinstance(n, torch.SymInt) else n) for n in (*x.shape, *x.stride(), *y.shape)]
    assert sizes == [b.node.expr, s.node.expr, 6, 6 * s.node.expr, 6, 1, b.node.expr, 4]
    assert (x.requires_grad, y.requires_grad, y.is_leaf) == (False, True, True)
    leaf = torch.randn(5, 4, requires_grad=True)
    gm, inputs = captured(lambda t: t.view(5 * 4), leaf * 2)
    entry = EntryState.now(gm, inputs)
    one = generalization_pb2.Generalization()
    one.syms.symbols.add()
    one.syms.exprs.add(op=_E.SYMBOL)
    one.places.add(value=0, expr=0)
    fake = generalize(gm, inputs, entry, lookup_of(gm, inputs, entry).request.guards, one).fakes()[1]
    assert fake.requires_grad and not fake.is_leaf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.syms.ClearField("symbols"), "with 0 symbols"),
        (lambda g: [g.syms.symbols.add() for _ in range(15)], "with 17 symbols"),
        (lambda g: g.syms.symbols.add(), "no sizes of inputs"),
        (lambda g: setattr(g.places[0], "expr", 1000), "an expression that is not there"),
        (lambda g: setattr(g.places[-1], "value", 1000), "does not fit: value 1000"),
        (lambda g: setattr(g.places[-1], "expr", 0), "does not fit"),
        (lambda g: setattr(g.syms.exprs[9], "value", 4), "does not fit"),
        (lambda g: setattr(g.syms.exprs[0], "value", 7), "a symbol that is not there"),
        (lambda g: setattr(g.syms.exprs[0], "value", -1), "a symbol that is not there"),
        (lambda g: setattr(g.syms.exprs[3], "op", _E.FLOOR_DIV), "not well formed"),
        (lambda g: setattr(g.syms.exprs[3], "op", 77), "not well formed"),
        (lambda g: g.syms.exprs[2].args.append(2), "not well formed"),
        (lambda g: g.syms.exprs[2].ClearField("args"), "not well formed"),
        (lambda g: g.syms.exprs[3].args.append(0), "not well formed"),
        (lambda g: g.syms.exprs.add(op=_E.MUL, args=[2] * 100), "does not fit in 64 bits"),
    ],
)
def test_what_does_not_fit_is_refused(change: Callable[[Any], Any], message: str) -> None:
    bad = general()
    change(bad)
    with pytest.raises(KilnError, match=message):
        Case(5, 7).generalize(bad)


def test_small_sizes_are_refused() -> None:
    with pytest.raises(KilnError, match="small ones"):
        Case(1, 7).generalize(general())
