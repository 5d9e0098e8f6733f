"""A small GPT-2 trains as in eager mode."""

from __future__ import annotations

import copy
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import kiln
import pytest
import torch
import transformers


def model(dropout: float) -> transformers.GPT2LMHeadModel:
    config = transformers.GPT2Config(
        n_layer=2, n_embd=64, n_head=4, vocab_size=211, n_positions=32, bos_token_id=0, eos_token_id=0,
        resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
    )  # fmt: skip
    made = transformers.GPT2LMHeadModel(config)
    made.loss_type = "ForCausalLM"  # or transformers warns while it is traced, which breaks the graph
    return made


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_training(dropout: float) -> None:
    reference = model(dropout).train()
    trained = copy.deepcopy(reference)
    compiled = torch.compile(trained, backend="kiln")
    pairs = [(m, torch.optim.AdamW(m.parameters(), lr=1e-3)) for m in (reference, trained)]
    for step in range(6):
        ids = torch.randint(211, (2, 24), generator=torch.Generator().manual_seed(step))
        losses = []
        for (m, optimizer), call in zip(pairs, (reference, compiled), strict=True):
            torch.manual_seed(step)
            loss = call(input_ids=ids, labels=ids).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            assert all(p.grad is not None for p in m.parameters())
        assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert kiln.counters()["fallbacks"] == []
    assert kiln.counters()["launches"] > 0


@pytest.mark.usefixtures("server")
def test_evaluation_at_several_lengths() -> None:
    m = model(0.1).eval()
    compiled = torch.compile(m, backend="kiln", dynamic=True)
    with torch.no_grad():
        for n in (5, 9, 16, 31):
            ids = torch.randint(211, (1, n))
            torch.testing.assert_close(compiled(input_ids=ids).logits, m(input_ids=ids).logits, rtol=1e-4, atol=1e-4)
    assert kiln.counters()["fallbacks"] == []
