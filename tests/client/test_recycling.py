"""Outputs over memory that nobody uses any more: what is held in any way is left alone, what is not is used again."""

from __future__ import annotations

import io
import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from kiln import _kiln
from plans import FACTS, Plan, compile_kernels

pytestmark = pytest.mark.skipif(shutil.which("clang-19") is None, reason="makes its kernels with clang-19")

SIZE = 1 << 15  # floats: 128 kB
DEFAULT_BYTES = 8 << 30
FILL = """
KERNEL(fill) {
  const float* x = buffers[0];
  float* y = buffers[1];
  for (int64_t i = begin; i < end; ++i) y[i] = x[0];
}
"""


@pytest.fixture(autouse=True)
def _empty_pool() -> Iterator[None]:
    _kiln.recycle(True, DEFAULT_BYTES)
    _kiln.trim()
    _kiln.recycled(True)
    yield
    _kiln.recycle(True, DEFAULT_BYTES)


@pytest.fixture(scope="module")
def shared_object() -> bytes:
    return compile_kernels(FILL)


def filler(shared_object: bytes, *sizes: int) -> Callable[[float], Any]:
    """f(value): a tensor of each size, all filled with the value; one tensor for one size."""
    plan = Plan(torch.zeros(1))
    outputs = [plan.empty(torch.empty(size)) for size in sizes]
    for y, size in zip(outputs, sizes, strict=True):
        plan.launch("fill", plan.inputs[0], y, extent=size)
    function = plan.output(*outputs).load(shared_object)

    def call(value: float) -> Any:
        results = function([torch.tensor([float(value)])])
        return results[0] if len(sizes) == 1 else results

    return call


@pytest.fixture(scope="module")
def fill(shared_object: bytes) -> Callable[[float], torch.Tensor]:
    return filler(shared_object, SIZE)


def holds(tensor: torch.Tensor, value: float) -> bool:
    return bool((tensor == value).all())


def test_this_torch_is_understood() -> None:
    assert FACTS["not_recycled"] == ""


# --- used again ---


def test_memory_is_used_again(fill: Any) -> None:
    seen = set()
    for i in range(50):
        out = fill(i)
        assert holds(out, i) and out.shape == (SIZE,)
        seen.add(out.data_ptr())
    assert len(seen) == 2, "the one that is held while the next is made, and the next"
    del out
    assert _kiln.recycled() == {"bytes": 8 * SIZE, "idle_bytes": 8 * SIZE, "reused": 48, "fresh": 2}


def test_without_page_faults(shared_object: bytes) -> None:
    size = 1 << 22  # 16 MiB
    large = filler(shared_object, size)
    large(0), large(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for i in range(20):
        assert holds(large(i)[:: 1 << 16], i)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 20 * size // 1024 // 100, "of 4096 4-kB pages a call"


def test_many_outputs_of_one_call(shared_object: bytes) -> None:
    many = filler(shared_object, *[SIZE] * 200)
    for i in range(5):
        outputs = many(i)
        assert len({out.data_ptr() for out in outputs}) == 200
        assert all(holds(out, i) for out in outputs)
        del outputs
    assert _kiln.recycled()["fresh"] == 200


def test_sizes_are_exact(shared_object: bytes) -> None:
    filler(shared_object, 2 * SIZE)(1)
    fill = filler(shared_object, SIZE)
    for i in range(3):
        out = fill(i)
        assert out.untyped_storage().nbytes() == 4 * SIZE
        file = io.BytesIO()
        torch.save(out, file)
        assert 4 * SIZE < file.tell() < 4 * SIZE + 4096
        file.seek(0)
        assert holds(torch.load(file), i)


def test_storages_that_python_has_seen_do_not_pile_up(fill: Any) -> None:
    for i in range(30):
        out = fill(i)
        torch.save(out, io.BytesIO())
        assert out.untyped_storage().nbytes() == 4 * SIZE
    assert _kiln.recycled()["bytes"] <= 3 * 4 * SIZE
    del out
    _kiln.trim()
    assert _kiln.recycled()["bytes"] == 0


def test_small_outputs_are_new(shared_object: bytes) -> None:
    small = filler(shared_object, 1000)
    small(1), small(2)
    assert _kiln.recycled()["bytes"] == 0


# --- held ---


def _dlpack(out: torch.Tensor) -> Any:
    return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(out))


def _shared(out: torch.Tensor) -> torch.Tensor:
    return out.share_memory_()


def _saved_by_autograd(out: torch.Tensor) -> Any:
    product = out.requires_grad_() * out

    class Saved:
        def __eq__(self, value: object) -> Any:
            (grad,) = torch.autograd.grad(product.sum(), out_of[0], retain_graph=True)
            return grad == 2 * value  # type: ignore[operator]

    out_of = [product.grad_fn.next_functions[0][0].variable]
    return Saved()


def _storage(out: torch.Tensor) -> Any:
    storage = out.untyped_storage()

    class Held:
        def __eq__(self, value: object) -> Any:
            return torch.empty(0).set_(storage) == value

    return Held()


HOLDERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensor": lambda out: out,
    "view": lambda out: out[3:],
    "view of another dtype": lambda out: out.view(torch.int32).view(torch.float32),
    "detach": lambda out: out.detach(),
    "numpy": lambda out: torch.from_numpy(out.numpy()),
    "memoryview": lambda out: torch.frombuffer(memoryview(out.numpy()), dtype=torch.float32),
    "dlpack": _dlpack,
    "storage": _storage,
    "set_": lambda out: torch.empty(0).set_(out),
    "data": lambda out: torch.nn.Parameter(torch.zeros(1)).data.set_(out.data),
    "parameter": torch.nn.Parameter,
    "lazy clone": torch._lazy_clone,
    "lazy clone of a view": lambda out: torch._lazy_clone(out[5:]),
    "shared memory": _shared,
    "autograd": _saved_by_autograd,
    "resized": lambda out: out.resize_(4 * SIZE).resize_(SIZE),
    "smaller": lambda out: out.resize_(SIZE // 2),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_is_held_is_never_handed_out(fill: Any, holder: str) -> None:
    for first in range(3):
        out = fill(first)
        held = HOLDERS[holder](out)
        address = held.data_ptr() if isinstance(held, torch.Tensor) else out.data_ptr()
        del out
        for i in range(100, 130):
            new = fill(i)
            assert new.data_ptr() != address
            assert holds(new, i)
            new.fill_(-1)
        assert bool((held == first).all())
        del held, new
    kept = _kiln.recycled()
    assert kept["reused"] > 80 and kept["bytes"] <= 6 * 4 * SIZE


def test_a_python_storage_and_weak_references_hold_too(fill: Any) -> None:
    from torch.multiprocessing.reductions import StorageWeakRef

    out = fill(1)
    weak, address = StorageWeakRef(out.untyped_storage()), out.data_ptr()
    del out
    assert all(fill(i).data_ptr() != address for i in range(20)) or weak.expired()


def test_a_user_may_resize(fill: Any) -> None:
    out = fill(1)
    out.resize_(3 * SIZE).fill_(2)
    assert holds(out, 2)
    del out
    for i in range(5):
        out = fill(i)
        assert holds(out, i) and out.untyped_storage().nbytes() == 4 * SIZE
        out.untyped_storage().resize_(0)
        del out
    assert _kiln.recycled()["reused"] == 0


def test_outputs_are_ordinary_tensors(fill: Any) -> None:
    for i in range(3):
        out = fill(i)
        assert out._base is None and out._version == 0 and out.is_leaf and not out.requires_grad
        assert not out.is_shared()
        out.add_(1)
        x = out.requires_grad_()
        (x * x).sum().backward()
        assert holds(x.grad, 2 * (i + 1))
        del out, x


@pytest.mark.parametrize("first", [True, False])
def test_inference_mode(fill: Any, first: bool) -> None:
    """Memory goes from one mode to the other; the tensors are those of the mode that they are made in."""
    for i in range(6):
        with torch.inference_mode(first == (i % 2 == 0)):
            out = fill(i)
        assert out.is_inference() == (first == (i % 2 == 0))
        assert holds(out, i)
        if not out.is_inference():
            assert holds(torch.autograd.grad((out.requires_grad_() * 3).sum(), out)[0], 3)
        del out
    assert _kiln.recycled()["fresh"] == 1


# --- threads and processes ---


def test_threads(shared_object: bytes) -> None:
    fill = filler(shared_object, SIZE, SIZE + 16)
    wrong: list[tuple[float, float]] = []

    def work(number: int) -> None:
        held: list[tuple[float, torch.Tensor]] = []
        for i in range(300):
            value = float(number * 1000 + i)
            held += [(value, out) for out in fill(value)]
            if len(held) > 6:
                wrong.extend((v, float(out[7])) for v, out in held if not holds(out, v))
                del held[:]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert _kiln.recycled()["reused"] > 2000


def test_a_tensor_may_die_in_another_thread(fill: Any) -> None:
    out, done = fill(1), threading.Event()
    address, held = out.data_ptr(), [out]

    def drop() -> None:
        done.wait()
        held.clear()

    thread = threading.Thread(target=drop)
    thread.start()
    del out
    assert all(fill(i).data_ptr() != address for i in range(20))
    done.set()
    thread.join()
    assert address in {fill(i).data_ptr() for i in range(20)}


def test_fork(fill: Any) -> None:
    """Children use their own copy of the memory, whatever the parent's other threads were doing."""
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            fill(3)

    thread = threading.Thread(target=busy)
    thread.start()
    held = fill(1)
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    good = all(holds(fill(i), i) for i in range(5)) and holds(held, 1)
                    held.fill_(9)
                    _kiln.trim()
                    status = 0 if good else 2
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
            assert holds(held, 1)
            assert holds(fill(4), 4)
    finally:
        stop.set()
        thread.join()


# --- limits ---


def test_off(fill: Any) -> None:
    fill(0)
    _kiln.recycle(False, DEFAULT_BYTES)
    assert _kiln.recycled()["bytes"] == 0
    for i in range(5):
        assert holds(fill(i), i)
    assert _kiln.recycled() == {"bytes": 0, "idle_bytes": 0, "reused": 0, "fresh": 1}


def test_no_more_bytes_than_allowed(shared_object: bytes) -> None:
    many = filler(shared_object, *[SIZE] * 10)
    _kiln.recycle(True, 4 * 4 * SIZE)
    for i in range(3):
        assert all(holds(out, i) for out in many(i))
        assert _kiln.recycled()["bytes"] <= 4 * 4 * SIZE


def test_trim_gives_back_what_nobody_holds(fill: Any) -> None:
    held, dropped = fill(1), fill(2)
    del dropped
    assert _kiln.recycled()["idle_bytes"] == 4 * SIZE
    assert _kiln.trim() == 4 * SIZE
    assert _kiln.recycled()["bytes"] == 4 * SIZE
    assert holds(held, 1)
