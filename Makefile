# The two commands to know are `make demo` and `make test`.

BOOK ?= examples/data/pride_and_prejudice.txt
OUT ?= out
PROMPT ?= It is a truth universally acknowledged, that
TOKENS ?= 200

LANTHORN := $(or $(CARGO_TARGET_DIR),target)/release/lanthorn

.PHONY: demo build test test-rust sanitize neon node node-packages python web xor bench wasm lint clean help

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

demo: build ## train a tokenizer and a small GPT on a book, then let it write
	$(LANTHORN) train "$(BOOK)" --out "$(OUT)" --overwrite
	$(LANTHORN) generate --checkpoint "$(OUT)/checkpoint.safetensors" --prompt "$(PROMPT)" --tokens $(TOKENS) --text "$(BOOK)"

build: ## the `lanthorn` command, optimised
	cargo build --release --locked --package lanthorn

test: wasm ## every test of the engine and of its faces: Rust, Python, Node, a browser
	tools/gpu-setup.sh
	tools/test.sh

test-rust: ## the Rust tests alone
	tools/gpu-setup.sh
	FACES= tools/test.sh

sanitize: ## undefined behaviour, data races and leaks under Miri and ThreadSanitizer (needs nightly Rust; 20 minutes on two cores)
	tools/sanitize.sh

neon: ## the kernels' tests on ARM with NEON, emulated (needs qemu-user and a linker for ARM; 15 minutes on two cores)
	tools/neon.sh

node: ## Node's package, optimised
	tools/node-build.sh --release
	tools/node-package.sh

node-packages: ## Node's packages for this platform, as npm installs them, in out/packages
	tools/node-pack.sh "$(OUT)/packages"

python: ## the Python module, optimised
	tools/python-build.sh --release

web: ## the modules of the browser
	tools/web-build.sh

xor: ## one program on every face of this machine: the losses of exclusive or from Rust, a GPU, Node and Python
	cargo run --release --locked --quiet --package lanthorn --example xor
	tools/gpu-setup.sh
	cargo run --release --locked --quiet --package lanthorn --features gpu --example xor -- --device gpu
	$(MAKE) --no-print-directory node python
	node examples/xor/node.mjs
	PYTHONPATH=python $${PYO3_PYTHON:-python3.11} examples/xor/xor.py

bench: build ## ours against peers, in turn (installs upstream PyTorch, transformers and llama.cpp once, about 3 GB)
	benches/peers/setup.sh
	benches/peers/llama.sh
	benches/peers/models.sh
	$(LANTHORN) bench
	cargo run --release --locked --package lanthorn-gpu --example bench -- out/bench.json
	tools/python-bench.sh
	tools/node-bench.sh
	tools/web-bench.sh

wasm: ## the crates that a browser carries, for wasm32-unknown-unknown
	tools/wasm-check.sh

lint: ## formatting, clippy, documentation, scripts
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	PYO3_PYTHON=$${PYO3_PYTHON:-python3.11} cargo clippy --workspace --all-targets --features lanthorn-python/extension --locked -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked --quiet
	for script in .ci/run $$(git ls-files '*.sh'); do bash -n "$$script" || exit 1; done
	python3 -c 'import ast, sys; [ast.parse(open(name).read(), name) for name in sys.argv[1:]]' \
	    $$(git ls-files '*.py')

clean: ## what was built and what the demo wrote
	cargo clean
	rm -rf "$(OUT)"
