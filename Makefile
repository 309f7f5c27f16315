# Two commands are all that a newcomer types: `make demo` and `make test`.

.PHONY: help deps build demo test lint bench fuzz clean

CARGO ?= cargo
# The samplers of the demonstration: the first host of each of eight leaf switches.
SAMPLERS = node[00001,00025,00049,00073,00097,00121,00145,00169]
DEMO = out/demo
# What a bare Debian lacks: the first line to build, the second to test against the real tools.
PACKAGES = libibumad-dev libibmad-dev libclang-dev pkg-config \
           ibsim-utils libumad2sim0 infiniband-diags opensm
# nextest if it is there, else the runner that comes with cargo.
NEXTEST = $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo yes)
RUN_TESTS = $(if $(NEXTEST),$(CARGO) nextest run,$(CARGO) test)

# How long each target of `make fuzz` runs.
FUZZ_SECONDS ?= 60
FUZZ = $(CARGO) fuzz run --sanitizer none
FUZZ_END = -- -max_total_time=$(FUZZ_SECONDS) -timeout=10 -verbosity=0 -print_final_stats=1

help: ## This list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

deps: ## Install what is missing of Debian's packages
	@./scripts/deps $(PACKAGES)

build: deps ## Build target/release/ibnet-gen, ibnet-sweep and ibnet-view
	$(CARGO) build --release --bins

demo: deps ## Plan and sweep a simulated fabric, and draw its congestion: half a minute
	@$(CARGO) build --release --bins --example demo
	@mkdir -p $(DEMO)
	@./target/release/ibnet-gen --net examples/stria.p --samplers '$(SAMPLERS)' -o $(DEMO)/assignments.toml
	@echo
	@./target/release/examples/demo examples/stria.p $(DEMO)/assignments.toml $(DEMO)
	@echo
	@./target/release/ibnet-view links '$(DEMO)/*.jsonl' --tree --top 1
	@./target/release/ibnet-view heatmap '$(DEMO)/*.jsonl' --metric xmit_utilization,xmit_blocked --by switch --range 0..1 -o $(DEMO)/heatmap.png
	@./target/release/ibnet-view map '$(DEMO)/*.jsonl' -o $(DEMO)/map.svg
	@./target/release/ibnet-view job '$(DEMO)/*.jsonl' --nodes 'node[00001-00008,00025-00032]' -o $(DEMO)/job.svg > $(DEMO)/job.txt
	@echo
	@echo "pictures  $(DEMO)/heatmap.png (who is busy and who waits, when), map.svg (where: open it in a browser), job.svg (a job in it)"

test: deps ## Every tier but hardware, ibsim with the real tools too
	$(RUN_TESTS) --no-default-features
	IBNET_REQUIRE_IBSIM=1 $(RUN_TESTS)
	$(CARGO) test --doc

lint: deps ## Format, lints and documentation: nothing may be said
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy --all-targets --no-default-features -- -D warnings
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --no-deps

bench: deps ## Measure, and print the tables of docs/performance.md
	$(CARGO) bench --bench codec
	$(CARGO) bench --bench scale --no-default-features
	$(CARGO) bench --bench view --no-default-features
	$(CARGO) bench --bench ibsim

# Without a sanitizer the stable toolchain will do.
fuzz: ## Throw made-up replies, records and net files at the readers: a minute each
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install cargo-fuzz --locked
	$(CARGO) fuzz build --sanitizer none
	$(FUZZ) mad_reply $(FUZZ_END) -max_len=2000 -len_control=0
	$(FUZZ) records $(FUZZ_END)
	@mkdir -p fuzz/corpus/net_file
	$(FUZZ) net_file fuzz/corpus/net_file tests/data/fabrics $(FUZZ_END) -max_len=4000

clean: ## Remove what was built and what the demo wrote
	$(CARGO) clean
	rm -rf out fuzz/target
