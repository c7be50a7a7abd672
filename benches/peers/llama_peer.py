#!/usr/bin/env python3
"""llama.cpp, measured on the same machine in the same run as Lanthorn; built for this processor by `llama.sh`.

`peer.py` has the protocol. The model is SmolLM2-135M-Instruct in Q4_1, which `models.sh` fetches.

Workloads
---------
smollm2_q4_prefill_N   the logits after N tokens, an empty cache filled
smollm2_q4_decode      32 tokens written greedily after 16
"""

import ctypes
import os

import llama_cpp
import numpy as np

import peer

PATH = os.path.join(peer.models(), "SmolLM2-135M-Instruct.Q4_1.gguf")


class Model:
    """A context of llama.cpp with f16 keys and values, as by default."""

    def __init__(self, threads):
        @llama_cpp.llama_log_callback
        def silent(_level, _text, _data):
            pass

        self.silent = silent
        llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(PATH.encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = 1152, 1024, 512
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.vocab = llama_cpp.llama_vocab_n_tokens(vocabulary)

    def empty(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def feed(self, ids):
        """The most probable token after `ids`, which follow what is in the cache."""
        tokens = (llama_cpp.llama_token * len(ids))(*ids)
        if llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(tokens, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        return int(np.ctypeslib.as_array(logits, shape=(self.vocab,)).argmax())


def main():
    threads = peer.threads()
    model = Model(threads)

    def prefill(tokens):
        def run():
            model.empty()
            model.feed(list(range(1000, 1000 + tokens)))

        return lambda: run

    def decode():
        def run():
            model.empty()
            token = model.feed(list(range(1000, 1016)))
            for _ in range(31):
                token = model.feed([token])

        return run

    peer.serve(
        "llama.cpp",
        llama_cpp.__version__,
        threads,
        {
            "smollm2_q4_prefill_128": prefill(128),
            "smollm2_q4_prefill_1024": prefill(1024),
            "smollm2_q4_decode": decode,
        },
    )


if __name__ == "__main__":
    main()
