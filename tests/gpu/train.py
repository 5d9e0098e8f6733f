"""A training step under bf16 autocast with f32 weights: eager, Inductor and kiln, in one process, by turns.

    python tests/gpu/train.py [MODEL...] [--no-inductor] [--out results.train.json]

Milliseconds a step (medians of rounds of ten), and seconds of the first three steps from nothing, which is the time to
compile: kiln's server with an empty cache (the local daemon's, unless KILN_SERVER says otherwise; wipe it before).
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import statistics
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import timm
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F

Built = tuple[nn.Module, dict[str, Tensor]]


class Classifier(nn.Module):
    """With its loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(self.model(images).float(), labels)}


def _language(model: nn.Module, vocabulary: int, *shape: int) -> Built:
    ids = torch.randint(vocabulary, shape)
    return model, {"input_ids": ids, "labels": ids}


def gpt2() -> Built:
    config = transformers.GPT2Config(n_positions=512, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model = transformers.GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # or transformers warns while it is traced, which breaks the graph
    return _language(model, config.vocab_size, 8, 512)


def llama() -> Built:
    config = transformers.LlamaConfig(
        num_hidden_layers=12, hidden_size=1024, num_attention_heads=16, num_key_value_heads=8,
        intermediate_size=2816, vocab_size=32000, max_position_embeddings=512,
    )  # fmt: skip
    return _language(transformers.LlamaForCausalLM(config), config.vocab_size, 4, 512)


def bert() -> Built:
    config = transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model, inputs = _language(transformers.BertForMaskedLM(config), config.vocab_size, 16, 256)
    return model, inputs | {"attention_mask": torch.ones_like(inputs["input_ids"])}


def _image(name: str) -> Built:
    inputs = {"images": torch.randn(64, 3, 224, 224), "labels": torch.randint(1000, (64,))}
    return Classifier(timm.create_model(name)), inputs


MODELS: dict[str, Callable[[], Built]] = {
    "gpt2": gpt2,
    "llama": llama,
    "bert": bert,
    "vit": lambda: _image("vit_base_patch16_224"),
    "resnet50": lambda: _image("resnet50"),
}
ROUNDS, STEPS = 5, 10


def measure(name: str, backends: list[str]) -> dict[str, Any]:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model = model.cuda().train()
    inputs = {key: value.cuda() for key, value in inputs.items()}

    def step(call: Callable[..., Any]) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            loss: Tensor = call(**inputs)["loss"]
        loss.backward()
        for p in model.parameters():
            p.grad = None
        return loss.detach()

    row: dict[str, Any] = {}
    calls: dict[str, Callable[..., Any]] = {}
    for backend in backends:
        torch._dynamo.reset()
        options = {"options": {"strict": True}} if backend == "kiln" else {}
        start = time.perf_counter()
        call = model if backend == "eager" else torch.compile(model, backend=backend, **options)
        for _ in range(3):
            loss = step(call)
        torch.cuda.synchronize()
        row[backend] = {"first_three_s": round(time.perf_counter() - start, 2), "loss": loss.item()}
        calls[backend] = call
    times: dict[str, list[float]] = {backend: [] for backend in backends}
    for _ in range(ROUNDS):
        for backend, call in calls.items():
            step(call)
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(STEPS):
                step(call)
            torch.cuda.synchronize()
            times[backend].append((time.perf_counter() - start) / STEPS * 1e3)
    for backend in backends:
        row[backend]["step_ms"] = round(statistics.median(times[backend]), 2)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; all")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    backends = ["eager", "kiln"] if args.no_inductor else ["eager", "inductor", "kiln"]
    rows: dict[str, Any] = {}
    for name in args.models or MODELS:
        row = rows[name] = measure(name, backends)
        if not args.no_inductor:
            row["speed_of_inductor"] = round(row["inductor"]["step_ms"] / row["kiln"]["step_ms"], 2)
        print(name, json.dumps(row), flush=True)
    if not args.no_inductor:
        speeds = [row["speed_of_inductor"] for row in rows.values()]
        print(f"geometric mean of Inductor's speed: {math.exp(statistics.fmean(map(math.log, speeds))):.2f}")
    if args.out:
        driver = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        about = {
            "device": torch.cuda.get_device_name(),
            "driver": subprocess.run(driver, capture_output=True, text=True, check=True).stdout.split()[0],
            "torch": torch.__version__,
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        }
        args.out.write_text(json.dumps(about | {"models": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
