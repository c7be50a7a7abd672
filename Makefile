# The two commands to know are `make demo` and `make test`.

BOOK ?= examples/data/pride_and_prejudice.txt
OUT ?= out
PROMPT ?= It is a truth universally acknowledged, that
TOKENS ?= 200

LANTHORN := $(or $(CARGO_TARGET_DIR),target)/release/lanthorn

.PHONY: demo build test bench wasm lint clean help

help: ## say what there is
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

demo: build ## train a tokenizer and a small GPT on a book, then let it write
	$(LANTHORN) train "$(BOOK)" --out "$(OUT)" --overwrite
	$(LANTHORN) generate --checkpoint "$(OUT)/checkpoint.safetensors" --prompt "$(PROMPT)" --tokens $(TOKENS) --text "$(BOOK)"

build: ## the `lanthorn` command, optimised
	cargo build --release --locked --package lanthorn

test: wasm ## every test, and the build for browsers
	tools/test.sh

bench: build ## ours against upstream PyTorch, in turn (installs it once, about 3 GB)
	benches/peers/setup.sh
	$(LANTHORN) bench

wasm: ## the crates that a browser carries, for wasm32-unknown-unknown
	tools/wasm-check.sh

lint: ## formatting, clippy, documentation, scripts
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked --quiet
	for script in .ci/run tools/*.sh benches/peers/*.sh; do bash -n "$$script" || exit 1; done
	python3 -c 'import ast, sys; [ast.parse(open(name).read(), name) for name in sys.argv[1:]]' \
	    benches/peers/*.py examples/data/*.py

clean: ## what was built and what the demo wrote
	cargo clean
	rm -rf "$(OUT)"
