#!/usr/bin/env python3
"""Upstream PyTorch, measured on the same machine in the same run as Lanthorn.

`peer.py` has the protocol. Start it with the virtual environment's Python (`setup.sh` makes it and prints its path):

    ${LANTHORN_CACHE:-$HOME/.cache/lanthorn}/peers/bin/python benches/peers/torch_peer.py

Workloads
---------
matmul_f32_N        `[N, N] @ [N, N]` in f32 into a fresh tensor, N = 256, 512, 1024, 2048
matmul_bf16_1024    the same in bf16
gemv_f32_4096       `[4096, 4096] @ [4096]`
skinny_f32_8x4096   `[8, 4096] @ [4096, 4096]`
chain_f32_16m       8 elementwise operations on 16 M f32, three of them transcendental, each its own kernel
softmax_f32_4096, layer_norm_f32_4096
                    over the rows of `[4096, 4096]`, the norm with weight and bias
sum_f32_16m, mean_axis0_f32_4096, argmax_axis1_f32_4096, argmax_axis0_f32_4096
                    reductions of 16 M f32
eager_add_4_x1000   a thousand adds of four elements
conv2d_f32, conv2d_depthwise_f32
                    3x3, padding 1, of `[8, 64, 56, 56]` to as many channels, under no_grad; one group, and 64
conv2d_grad_f32     the same (one group) with the gradients of image and weight
max_pool2d_f32      3x3, stride 2, padding 1, of `[8, 64, 112, 112]`
mlp_step            zero_grad, forward, mean cross-entropy, backward and Adam (defaults) of a 784-512-512-10 perceptron on
                    128 images
gpt_step            one training step of a GPT in eager mode, f32: zero_grad, forward, mean cross-entropy, backward,
                    clip_grad_norm_(1.0), AdamW (defaults: foreach off on the CPU), and reading the loss. 4 layers,
                    256 wide, 8 heads, sequence 128, batch 8, vocabulary 2048, learned positions, pre-norm layer norms
                    with bias, one fused linear for q, k and v, scaled_dot_product_attention(is_causal=True), an MLP
                    4 times as wide with exact GELU, linears with bias, a final layer norm and an untied head without
                    bias; no dropout. 4,240,896 parameters.
gpt_step_fused      the same with AdamW(fused=True), upstream's fastest on the CPU
gpt_forward         forward and loss only, under no_grad
gpt_decode          112 tokens written greedily by the same GPT with a cache of keys and values, after a prompt of 16
smollm2_f32_prefill_N
                    SmolLM2-135M-Instruct by transformers, its weights unpacked to f32: the logits after N tokens, an empty
                    cache filled (the file is that of `models.sh`)
smollm2_f32_decode  32 tokens written greedily after 16, with transformers' cache
minilm_64x32        the vectors of 64 sentences of 32 tokens by all-MiniLM-L6-v2: tokenizer, model, mean, length 1
"""

import os
import pathlib

# They may be set for other programs on the machine, and they slow NumPy and whatever else carries OpenBLAS down.
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)

import torch
from torch import nn
from torch.nn import functional as F

import peer

LAYERS, WIDTH, HEADS, SEQUENCE, BATCH, VOCABULARY = 4, 256, 8, 128, 8, 2048
# Of the decoded text, which is longer than the sequences of the training step.
PROMPT, WRITTEN = 16, 112

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache=None, position=0):
        batch, sequence, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, sequence, 3, HEADS, width // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache[:, :, :, position : position + sequence] = torch.stack((k, v))
            k, v = cache[:, :, :, : position + sequence]
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=sequence > 1)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(SEQUENCE, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def decode(self, ids, caches, position):
        """Logits after the last of `ids [1, n]`, which stand at `position`; their keys and values are written."""
        x = self.tokens(ids) + self.positions(torch.arange(position, position + ids.shape[1]))
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache, position)
        return self.head(self.norm(x[:, -1]))


def matmul(size, dtype):
    def build():
        left, right = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
        return lambda: left @ right

    return build


def narrow(rows):
    def build():
        matrix = torch.randn(4096, 4096)
        if rows == 1:
            vector = torch.randn(4096)
            return lambda: matrix @ vector
        left = torch.randn(rows, 4096)
        return lambda: left @ matrix

    return build


def of_square(function):
    def build():
        x = torch.rand(4096, 4096) - 0.5
        return lambda: function(x)

    return build


def chain(x):
    y = torch.exp(torch.tanh(x * 0.5) + x)
    y = torch.sigmoid(y * 0.1) - x
    return y * y


def layer_norm():
    x, weight, bias = torch.rand(4096, 4096) - 0.5, torch.rand(4096), torch.rand(4096)
    return lambda: F.layer_norm(x, (4096,), weight, bias)


def small_adds():
    x, y = torch.rand(4), torch.rand(4)

    def run():
        for _ in range(1000):
            torch.add(x, y)

    return run


def conv2d(groups=1, gradients=False):
    def build():
        image = (torch.rand(8, 64, 56, 56) - 0.5).requires_grad_(gradients)
        weight = (torch.rand(64, 64 // groups, 3, 3) - 0.5).requires_grad_(gradients)
        cotangent = torch.rand(8, 64, 56, 56) - 0.5

        def run():
            y = F.conv2d(image, weight, padding=1, groups=groups)
            return torch.autograd.grad(y, (image, weight), cotangent) if gradients else y

        return run

    return build


def max_pool2d():
    image = torch.rand(8, 64, 112, 112) - 0.5
    return lambda: F.max_pool2d(image, 3, 2, 1)


def mlp_step():
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    images, labels = torch.rand(128, 784) - 0.5, torch.randint(10, (128,))
    optimizer = torch.optim.Adam(model.parameters())

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def gpt_loss():
    torch.manual_seed(0)
    model = Gpt()
    ids = torch.randint(VOCABULARY, (BATCH, SEQUENCE))
    targets = torch.randint(VOCABULARY, (BATCH, SEQUENCE))
    return model, lambda: F.cross_entropy(model(ids).view(-1, VOCABULARY), targets.view(-1))


def gpt_step(**adamw):
    def build():
        model, loss_of = gpt_loss()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **adamw)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.item()

        return step

    return build


def gpt_forward():
    _, loss_of = gpt_loss()

    def forward():
        with torch.no_grad():
            return loss_of().item()

    return forward


def gpt_decode():
    torch.manual_seed(0)
    model = Gpt()
    prompt = torch.randint(VOCABULARY, (1, PROMPT))
    caches = [torch.zeros(2, 1, HEADS, SEQUENCE, WIDTH // HEADS) for _ in range(LAYERS)]

    def decode():
        with torch.no_grad():
            ids, position = prompt, 0
            for _ in range(WRITTEN):
                logits = model.decode(ids, caches, position)
                position += ids.shape[1]
                ids = logits.argmax(-1, keepdim=True)

    return decode


def smollm2():
    """The model, read once."""
    if not hasattr(smollm2, "model"):
        from transformers import LlamaForCausalLM

        path = pathlib.Path(peer.models()) / "SmolLM2-135M-Instruct.Q4_1.gguf"
        smollm2.model = LlamaForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    return smollm2.model


def smollm2_prefill(tokens):
    def build():
        model = smollm2()
        ids = torch.arange(1000, 1000 + tokens)[None]

        def run():
            with torch.no_grad():
                return model(ids, use_cache=True, logits_to_keep=1).logits

        return run

    return build


def smollm2_decode():
    model = smollm2()
    prompt = torch.arange(1000, 1016)[None]

    def run():
        with torch.no_grad():
            ids, cache = prompt, None
            for _ in range(32):
                out = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
                ids, cache = out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values

    return run


# Each is a token of BERT.
WORDS = """time year people way day man thing woman life child world school state family student group country
    problem hand part place case week company system program question work government number""".split()


def minilm():
    from transformers import AutoModel, AutoTokenizer

    path = pathlib.Path(peer.models()) / "all-MiniLM-L6-v2"
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
    sentences = [" ".join(WORDS[(n + at * (1 + n % 7)) % len(WORDS)] for at in range(30)) for n in range(64)]

    def run():
        with torch.no_grad():
            inputs = tokenizer(sentences, padding=True, return_tensors="pt")
            assert inputs["input_ids"].shape == (64, 32)
            mask = inputs["attention_mask"][..., None].float()
            vectors = (model(**inputs).last_hidden_state * mask).sum(1) / mask.sum(1)
            return F.normalize(vectors, dim=1)

    return run


WORKLOADS = {
    **{f"matmul_f32_{size}": matmul(size, torch.float32) for size in (256, 512, 1024, 2048)},
    "matmul_bf16_1024": matmul(1024, torch.bfloat16),
    "gemv_f32_4096": narrow(1),
    "skinny_f32_8x4096": narrow(8),
    "chain_f32_16m": of_square(lambda x: chain(x.view(-1))),
    "softmax_f32_4096": of_square(lambda x: x.softmax(-1)),
    "layer_norm_f32_4096": layer_norm,
    "sum_f32_16m": of_square(torch.sum),
    "mean_axis0_f32_4096": of_square(lambda x: x.mean(0)),
    "argmax_axis1_f32_4096": of_square(lambda x: x.argmax(1)),
    "argmax_axis0_f32_4096": of_square(lambda x: x.argmax(0)),
    "eager_add_4_x1000": small_adds,
    "conv2d_f32": conv2d(),
    "conv2d_depthwise_f32": conv2d(groups=64),
    "conv2d_grad_f32": conv2d(gradients=True),
    "max_pool2d_f32": max_pool2d,
    "mlp_step": mlp_step,
    "gpt_step": gpt_step(),
    "gpt_step_fused": gpt_step(fused=True),
    "gpt_forward": gpt_forward,
    "gpt_decode": gpt_decode,
    **{f"smollm2_f32_prefill_{tokens}": smollm2_prefill(tokens) for tokens in (128, 1024)},
    "smollm2_f32_decode": smollm2_decode,
    "minilm_64x32": minilm,
}


def main():
    threads = peer.threads()
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(0)
    peer.serve("torch", torch.__version__, threads, WORKLOADS)


if __name__ == "__main__":
    main()
