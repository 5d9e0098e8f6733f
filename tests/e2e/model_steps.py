"""A training step and an evaluation of the six models (tests/models/zoo.py, small).

    python tests/e2e/model_steps.py BACKEND

Prints digests of losses, outputs and gradients, and what the server did, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "models"))


def digest(tensors: list[torch.Tensor]) -> str:
    hash_ = hashlib.sha256()
    for t in tensors:
        hash_.update(t.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return hash_.hexdigest()


def main() -> None:
    warnings.filterwarnings("ignore")
    import kiln
    from zoo import MODELS

    results: dict[str, Any] = {}
    for name, make in MODELS.items():
        torch._dynamo.reset()
        kiln.reset()
        torch.manual_seed(0)
        model, inputs = make()
        call = torch.compile(model, backend=sys.argv[1], dynamic=False, options={"strict": True})
        torch.manual_seed(1)
        outputs = call(**inputs)
        outputs[0].backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        buffers = [b for b in model.buffers() if b.numel()]
        trained = digest([outputs[0], outputs[1], *gradients, *buffers])
        model.eval()
        with torch.no_grad():
            evaluated = digest(list(call(**inputs)[:2]))
        counters = kiln.counters()
        results[name] = {
            "digests": [trained, evaluated],
            "served": [counters["compiles"], counters["hits"], counters["traced"]],
        }
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
