"""kilnctl ops, of a real server: what its compiler says of the operators that it knows."""

from __future__ import annotations

from kiln.testing import Daemon


def test_operators_have_meaning_gradient_budget_and_measured_error(shared_daemon: Daemon) -> None:
    ops = {op["name"]: op for op in shared_daemon.ctl("ops")["ops"]}
    assert len(ops) > 200 and list(ops) == sorted(ops)
    exp = ops["exp"]
    assert (exp["kind"], exp["torch"]) == ("pointwise", ["aten.exp.default"])
    assert exp["gradient"] and exp["budget"]["ulp"] > 0
    (function,) = exp["functions"]
    assert function["name"] == "exp" and function["exhaustive"]
    assert {f["name"] for f in ops["gelu"]["functions"]} == {"erf", "tanh"}
    assert ops["mm"]["kind"] == "external" and "budget" not in ops["mm"] and ops["mm"]["functions"] == []
    assert (ops["view"]["kind"], ops["sum_dim"]["kind"]) == ("view", "reduction")
    assert ops["eq"]["gradient"] == "the result is a bool"
    for name, op in ops.items():
        for f in op["functions"]:
            assert 0 < f["f32_measured"] <= f["f32_budget"], (name, f)
            assert 0 < f["f64_measured"] <= f["f64_budget"], (name, f)


def test_a_pattern_and_a_kind_choose(shared_daemon: Daemon) -> None:
    def names(*args: str) -> set[str]:
        return {op["name"] for op in shared_daemon.ctl("ops", *args)["ops"]}

    assert names("softmax") >= {"softmax", "log_softmax", "softmax_backward"}
    assert names("exp") >= {"exp", "exp2", "expm1"} and names("aten.exp.*") == {"exp"} and names("ex?") == {"exp"}
    external = names("--kind", "external")
    assert "mm" in external and "exp" not in external
    assert names("--kind", "external", "mm") == {name for name in external if "mm" in name}
