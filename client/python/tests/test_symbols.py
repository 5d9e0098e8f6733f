"""Size expressions: every sympy form that torch makes of sizes, evaluated against sympy itself."""

from __future__ import annotations

import itertools

import interpreter
import pytest
import sympy
from kiln.errors import CaptureError
from kiln.proto import graph_pb2
from kiln.symbols import SymTableBuilder
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions as ts

a, b = (sympy.Symbol(n, positive=True, integer=True) for n in ("s77", "s3"))


def _table() -> tuple[graph_pb2.Graph, SymTableBuilder]:
    graph = graph_pb2.Graph()
    return graph, SymTableBuilder(graph.syms, ShapeEnv(), with_size_class=True)


@pytest.mark.parametrize(
    "e",
    [
        sympy.Integer(-7),
        a,
        a + b + 3,
        2 * a * b - b,
        a**3 * b**2,
        ts.FloorDiv(a - 7, 3),
        ts.FloorDiv(a * b + 1, b + 2),
        ts.CleanDiv(a * 6, 3),
        ts.Mod(a + 5, 4),
        ts.PythonMod(a - 9, 4),
        ts.ModularIndexing(a * b, 3, 5),
        ts.Max(a, b + 2, 4),
        ts.Min(a * 2, b, 9),
        ts.CeilToInt(ts.IntTrueDiv(a + 2, b)),
        ts.FloorToInt(ts.IntTrueDiv(a, b + 1)),
        ts.TruncToInt(ts.IntTrueDiv(a * 5, b)),
        ts.Identity(a + b),
    ],
    ids=str,
)
def test_evaluates_as_sympy_does(e: sympy.Expr) -> None:
    graph, table = _table()
    first, second = table.expr(a), table.expr(b)
    index = table.expr(e)
    assert (first, second) == (0, 1)
    p = interpreter.Interpreter(graph)
    for x, y in itertools.product((1, 2, 3, 7, 24), repeat=2):
        assert p.size(index, {0: x, 1: y}) == int(e.xreplace({a: sympy.Integer(x), b: sympy.Integer(y)}).doit())
    for i, entry in enumerate(graph.syms.exprs):
        assert all(operand < i for operand in entry.args)


@pytest.mark.parametrize(
    "e",
    [
        ts.FloatTrueDiv(a, b),
        a / 2,
        a**100,
        a**b,
        ts.TruncToInt(ts.IntTrueDiv(a - 9, b)),
        sympy.sqrt(a),
        sympy.Integer(1 << 63),
        sympy.Symbol("u0", integer=True),
        sympy.Symbol("zf3", real=True),
    ],
    ids=str,
)
def test_what_is_not_exact_is_refused(e: sympy.Expr) -> None:
    with pytest.raises(CaptureError):
        _table()[1].expr(e)


def test_equal_expressions_are_one_entry() -> None:
    graph, table = _table()
    assert table.expr(a + b) == table.expr(b + a)
    assert table.size(3) == table.expr(sympy.Integer(3))
    assert len(graph.syms.exprs) == 4


def test_numbering_follows_first_use_not_names() -> None:
    tables = []
    for x, y in ((a, b), (b, a)):
        graph, table = _table()
        table.expr(x)
        table.expr(x * 2 + y * 3 - ts.Max(y, x))
        tables.append(graph.syms.SerializeToString(deterministic=True))
    assert tables[0] == tables[1]


def test_predicates_are_canonical() -> None:
    _, table = _table()
    table.expr(a), table.expr(b)
    less = table.predicate(sympy.StrictLessThan(a, b))
    assert (less.op, less.lhs, less.rhs) == (graph_pb2.Predicate.LT, 0, 1)
    assert table.predicate(sympy.StrictGreaterThan(b, a)) == less
    assert table.predicate(sympy.Eq(a, b + 1)) == table.predicate(sympy.Eq(b + 1, a))
    assert table.predicate(sympy.Eq(ts.FloatTrueDiv(a, b), b)) is None
    assert table.predicate(sympy.And(a > 3, b > 3)) is None


def test_specialised_and_repeated_inputs_get_their_own_symbols() -> None:
    graph, table = _table()
    x = table.input_symbol(8)
    y = table.input_symbol(8)
    assert [graph.syms.exprs[i].value for i in (x, y)] == [0, 1]
    assert len(graph.syms.symbols) == 2
