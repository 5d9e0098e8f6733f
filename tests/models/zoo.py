"""Six models with random weights: GPT-2, BERT, Llama, ViT, ResNet-50, an MLP with dropout.

Small enough for a test, or (`full`) as they are used: GPT-2 124M, BERT-base and a Llama of 12 layers at 1x128 tokens,
ViT-B/16 on two images, ResNet-50 on four; those without dropout.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers
from torch import nn
from torch.nn import functional as F

Built = tuple[nn.Module, dict[str, Any]]


def _tokens(full: bool, vocabulary: int) -> torch.Tensor:
    return torch.randint(vocabulary, (1, 128) if full else (2, 24))


def gpt2(full: bool = False) -> Built:
    if full:
        config = transformers.GPT2Config(n_positions=128, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    else:
        config = transformers.GPT2Config(
            n_layer=2, n_embd=64, n_head=4, vocab_size=211, n_positions=32, bos_token_id=0, eos_token_id=0
        )
    model = transformers.GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # or transformers warns while it is traced, which breaks the graph
    ids = _tokens(full, config.vocab_size)
    return model, {"input_ids": ids, "labels": ids}


def bert(full: bool = False) -> Built:
    if full:
        config = transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    else:
        config = transformers.BertConfig(
            num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128, vocab_size=211
        )
    ids = _tokens(full, config.vocab_size)
    mask = torch.ones_like(ids)
    mask[-1, 18:] = 0
    model = transformers.BertForMaskedLM(config)
    return model, {"input_ids": ids, "attention_mask": mask, "labels": ids}


def llama(full: bool = False) -> Built:
    if full:
        config = transformers.LlamaConfig(
            num_hidden_layers=12, hidden_size=1024, num_attention_heads=16, num_key_value_heads=8,
            intermediate_size=2816, vocab_size=32000, max_position_embeddings=128,
        )  # fmt: skip
    else:
        config = transformers.LlamaConfig(
            num_hidden_layers=2, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128,
            vocab_size=211, max_position_embeddings=64, bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
    ids = _tokens(full, config.vocab_size)
    return transformers.LlamaForCausalLM(config), {"input_ids": ids, "labels": ids, "use_cache": False}


def vit(full: bool = False) -> Built:
    if full:
        config = transformers.ViTConfig(num_labels=1000)
    else:
        config = transformers.ViTConfig(
            num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128, image_size=32,
            patch_size=8, num_labels=10,
        )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    images = torch.randn(2, 3, config.image_size, config.image_size)
    return model, {"pixel_values": images, "labels": torch.tensor([3, 7])}


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * 4
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet50(nn.Module):
    """He et al., 2015, with the loss; `width` is 64 in the paper."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        ]
        channels = width
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                layers.append(_Bottleneck(channels, width << stage, 2 if stage and not block else 1))
                channels = (width << stage) * 4
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.head(self.layers(x).mean((2, 3)))
        return F.cross_entropy(y, labels), y


def resnet50(full: bool = False) -> Built:
    labels = torch.tensor([1, 2, 3, 4])
    if full:
        return ResNet50(64, 1000), {"x": torch.randn(4, 3, 224, 224), "labels": labels}
    return ResNet50(8, 10), {"x": torch.randn(4, 3, 64, 64), "labels": labels}


class MLP(nn.Module):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1),
            nn.Linear(width, 10),
        )  # fmt: skip

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.layers(x)
        return F.cross_entropy(y, labels), y


def mlp(full: bool = False) -> Built:
    batch, inputs, width = (1024, 1024, 2048) if full else (8, 32, 64)
    return MLP(inputs, width), {"x": torch.randn(batch, inputs), "labels": torch.randint(10, (batch,))}


MODELS: dict[str, Callable[..., Built]] = {
    "gpt2": gpt2,
    "bert": bert,
    "llama": llama,
    "vit": vit,
    "resnet50": resnet50,
    "mlp": mlp,
}
