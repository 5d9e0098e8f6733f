"""Size expressions: sympy and torch's own functions to the flat, canonical table of proto/graph.proto.

Symbols are numbered by first use and commutative operands sorted by structure, so that the table does not depend on
torch's symbol names, which come from parameter paths.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv, SymT, symbol_is_type
from torch.utils._sympy import functions as ts
from torch.utils._sympy.value_ranges import bound_sympy

from kiln.errors import CaptureError
from kiln.proto import graph_pb2

_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1
_MAX_POWER = 16

_E = graph_pb2.SymExpr
_RELATIONS = {
    sympy.Eq: (graph_pb2.Predicate.EQ, False),
    sympy.Ne: (graph_pb2.Predicate.NE, False),
    sympy.StrictLessThan: (graph_pb2.Predicate.LT, False),
    sympy.LessThan: (graph_pb2.Predicate.LE, False),
    sympy.StrictGreaterThan: (graph_pb2.Predicate.LT, True),
    sympy.GreaterThan: (graph_pb2.Predicate.LE, True),
}

# An expression as a plain tuple: (operation, value, operands). Comparable; equal exactly where the entries are.
_Structure = tuple[int, int, tuple[Any, ...]]


class SymTableBuilder:
    """Builds one SymTable. `with_size_class` records the power-of-two bucket of each hint (kernels are chosen by it);
    the table of a GuardSpec leaves it out, because a hint is not a guard.

    Every method that takes an expression raises CaptureError where the wire format cannot express it exactly.
    """

    def __init__(self, table: graph_pb2.SymTable, shape_env: ShapeEnv | None, *, with_size_class: bool) -> None:
        self._table = table
        self._shape_env = shape_env
        self._with_size_class = with_size_class
        self._symbols: dict[sympy.Symbol, int] = {}
        self._structures: dict[sympy.Expr, _Structure] = {}
        self._index: dict[_Structure, int] = {}
        self._constants: dict[int, int] = {}

    def size(self, value: int | torch.SymInt) -> int:
        """Index of a size, stride or other integer, fixed or symbolic."""
        if type(value) is int:
            index = self._constants.get(value)
            if index is None:
                index = self._constants[value] = self._intern(_constant(value))
            return index
        return self.expr(expr_of(value))

    def expr(self, e: sympy.Expr) -> int:
        return self._intern(self._structure(e))

    def knows(self, e: sympy.Basic) -> bool:
        """Whether every symbol of `e` already has a number."""
        return all(s in self._symbols for s in e.free_symbols)

    def input_symbol(self, value: int | torch.SymInt) -> int:
        """Index of a SYMBOL entry for a SymInt input.

        An input that torch has specialised, or that repeats another, gets a symbol of its own which nothing else
        names: the graph does not depend on it. One without a value (mark_unbacked) is a size like any other.
        """
        e = sympy.Integer(value) if isinstance(value, int) else expr_of(value)
        if isinstance(e, sympy.Symbol) and e not in self._symbols:
            if self._shape_env is not None and symbol_is_type(e, SymT.UNBACKED_INT):
                self._add_symbol(e, self._shape_env)
            return self.expr(e)
        number = len(self._table.symbols)
        self._table.symbols.add(min=_INT64_MIN, max=_INT64_MAX)
        return self._intern((_E.SYMBOL, number, ()))

    def ranges_imply(self, condition: Any) -> bool:
        """Whether a SymBool holds wherever the symbols lie in their ranges, which each call checks."""
        if not isinstance(condition, torch.SymBool) or self._shape_env is None:
            return False
        bound = bound_sympy(condition.node.expr, self._shape_env.var_to_range)
        return bool(bound.is_bool and bound.lower == sympy.true)

    def predicate(self, e: sympy.Basic) -> graph_pb2.Predicate | None:
        """`e` as a predicate; None if it is not a relation of expressible integers."""
        relation = _RELATIONS.get(type(e))
        if relation is None:
            return None
        op, swap = relation
        try:
            lhs, rhs = (self._structure(a) for a in e.args)
        except CaptureError:
            return None
        if swap or (op in (graph_pb2.Predicate.EQ, graph_pb2.Predicate.NE) and rhs < lhs):
            lhs, rhs = rhs, lhs
        return graph_pb2.Predicate(op=op, lhs=self._intern(lhs), rhs=self._intern(rhs))

    def _intern(self, s: _Structure) -> int:
        index = self._index.get(s)
        if index is None:
            op, value, args = s
            operands = [self._intern(a) for a in args]
            index = self._index[s] = len(self._table.exprs)
            self._table.exprs.add(op=op, value=value, args=operands)
        return index

    def _structure(self, e: sympy.Expr) -> _Structure:
        s = self._structures.get(e)
        if s is None:
            s = self._structures[e] = self._build(e)
        return s

    def _build(self, e: sympy.Expr) -> _Structure:
        if isinstance(e, sympy.Integer):
            return _constant(int(e))
        if isinstance(e, sympy.Symbol):
            return (_E.SYMBOL, self._symbol(e), ())
        if isinstance(e, sympy.Add):
            return self._commutative(_E.ADD, e.args)
        if isinstance(e, sympy.Mul):
            return self._commutative(_E.MUL, e.args)
        if isinstance(e, sympy.Pow | ts.PowByNatural):
            return self._power(*e.args)
        if isinstance(e, ts.FloorDiv):  # CleanDiv is one
            return self._binary(_E.FLOOR_DIV, *e.args)
        if isinstance(e, ts.Mod | ts.PythonMod):  # Mod's operands are not negative
            return self._binary(_E.MOD, *e.args)
        if isinstance(e, ts.ModularIndexing):
            base, divisor, modulus = e.args
            return (_E.MOD, 0, (self._binary(_E.FLOOR_DIV, base, divisor), self._structure(modulus)))
        if isinstance(e, ts.Min | sympy.Min):
            return self._fold(_E.MIN, e.args)
        if isinstance(e, ts.Max | sympy.Max):
            return self._fold(_E.MAX, e.args)
        if isinstance(e, ts.Identity):
            return self._structure(e.args[0])
        return self._rounded(e)

    def _rounded(self, e: sympy.Expr) -> _Structure:
        """Roundings of a true quotient of integers, which are integer divisions: a double holds the quotient of two
        numbers below 2^53 precisely enough. Truncation is one only where the quotient is not negative."""
        if isinstance(e, ts.CeilToInt | ts.FloorToInt | ts.TruncToInt) and isinstance(e.args[0], ts.IntTrueDiv):
            base, divisor = e.args[0].args
            if isinstance(e, ts.CeilToInt):
                negated = _sorted(_E.MUL, [_constant(-1), self._structure(base)])
                quotient = (_E.FLOOR_DIV, 0, (negated, self._structure(divisor)))
                return _sorted(_E.MUL, [_constant(-1), quotient])
            if isinstance(e, ts.FloorToInt) or (base.is_nonnegative and divisor.is_positive):
                return self._binary(_E.FLOOR_DIV, base, divisor)
        raise CaptureError(f"size expression {e} ({type(e).__name__}) has no exact integer form")

    def _commutative(self, op: int, args: tuple[sympy.Expr, ...]) -> _Structure:
        return _sorted(op, [self._structure(a) for a in self._by_first_use(args)])

    def _binary(self, op: int, a: sympy.Expr, b: sympy.Expr) -> _Structure:
        return (op, 0, (self._structure(a), self._structure(b)))

    def _power(self, base: sympy.Expr, exponent: sympy.Expr) -> _Structure:
        if not isinstance(exponent, sympy.Integer) or not 0 < int(exponent) <= _MAX_POWER:
            raise CaptureError(f"size expression {base}**{exponent} is not a small power")
        return (_E.MUL, 0, (self._structure(base),) * int(exponent))

    def _fold(self, op: int, args: tuple[sympy.Expr, ...]) -> _Structure:
        first, *rest = sorted(self._structure(a) for a in self._by_first_use(args))
        for operand in rest:
            first = (op, 0, (first, operand))
        return first

    def _by_first_use(self, args: tuple[sympy.Expr, ...]) -> list[sympy.Expr]:
        """sympy orders operands by symbol name: put those whose symbols have numbers first, which leaves the name to
        decide only between symbols that no input binds."""
        return sorted(args, key=lambda a: not self.knows(a))

    def _symbol(self, s: sympy.Symbol) -> int:
        number = self._symbols.get(s)
        if number is not None:
            return number
        if self._shape_env is None or not symbol_is_type(s, SymT.SIZE):
            if symbol_is_type(s, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)):
                raise CaptureError(f"size {s} depends on data (an unbacked symbol)")
            raise CaptureError(f"symbol {s} is not a size")
        return self._add_symbol(s, self._shape_env)

    def _add_symbol(self, s: sympy.Symbol, shape_env: ShapeEnv) -> int:
        range_ = shape_env.var_to_range.get(s)
        entry = self._table.symbols.add(min=_bound(range_, "lower"), max=_bound(range_, "upper"))
        if self._with_size_class:
            entry.size_class = max(_hint(shape_env, s), 0).bit_length()
        number = self._symbols[s] = len(self._table.symbols) - 1
        return number


def expr_of(value: torch.SymInt) -> sympy.Expr:
    """The sympy expression of a SymInt; evaluates nothing, so adds no guard."""
    node = value.node
    if node.is_nested_int():
        raise CaptureError("nested (jagged) sizes")
    if node.is_constant():
        return sympy.Integer(node.maybe_as_int())
    return node.expr


def _constant(value: int) -> _Structure:
    if not _INT64_MIN <= value <= _INT64_MAX:
        raise CaptureError(f"integer {value} does not fit in 64 bits")
    return (_E.CONST, value, ())


def _sorted(op: int, args: list[_Structure]) -> _Structure:
    return (op, 0, tuple(sorted(args)))


def _bound(range_: Any, side: str) -> int:
    """An end of a ValueRanges; saturates where it is infinite."""
    otherwise = _INT64_MIN if side == "lower" else _INT64_MAX
    bound = getattr(range_, side, None)
    if not isinstance(bound, sympy.Integer):
        return otherwise
    return max(_INT64_MIN, min(_INT64_MAX, int(bound)))


def _hint(shape_env: ShapeEnv, s: sympy.Symbol) -> int:
    name = "backed_var_to_val" if hasattr(shape_env, "backed_var_to_val") else "var_to_val"  # older torch
    values = getattr(shape_env, name)
    hint = values.get(s)
    return int(hint) if isinstance(hint, sympy.Integer) else 0
