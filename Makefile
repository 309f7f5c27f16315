# Two commands are all that a newcomer types: `make demo` and `make test`.

.PHONY: help deps tools build install demo test lint deny audit bench fuzz clean

CARGO ?= cargo
# The samplers of the demonstration: the first host of each of eight leaf switches.
SAMPLERS = node[00001,00025,00049,00073,00097,00121,00145,00169]
DEMO = out/demo
# What a bare Debian lacks: the first line to build, the second to test against the real tools and with those who read lines.
PACKAGES = libibumad-dev libibmad-dev libclang-dev pkg-config \
           ibsim-utils libumad2sim0 infiniband-diags opensm openssl python3-venv jq
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

tools: deps ## Fetch what tests read our output with into out/tools: 700 MB
	@./scripts/tools

build: deps ## Build target/release/ibnet-gen, ibnet-sweep and ibnet-view
	$(CARGO) build --release --bins

# Where `make install` puts things, and whence it takes the programs.
DESTDIR ?=
PROGRAMS ?= target/release
UNITS = $(DESTDIR)/usr/lib/systemd/system

install: ## Install the programs and the service (as root, after `make build`)
	install -D -m 755 -t $(DESTDIR)/usr/bin $(PROGRAMS)/ibnet-gen $(PROGRAMS)/ibnet-sweep $(PROGRAMS)/ibnet-view
	install -D -m 644 -t $(UNITS) packaging/ibnet-sweep.service packaging/ibnet-sweep@.service
	install -D -m 644 packaging/ibnet.sysusers $(DESTDIR)/usr/lib/sysusers.d/ibnet.conf
	install -D -m 644 packaging/ibnet.tmpfiles $(DESTDIR)/usr/lib/tmpfiles.d/ibnet.conf
	install -D -m 644 -t $(DESTDIR)/usr/lib/udev/rules.d packaging/60-ibnet-umad.rules
	install -D -m 644 -t $(DESTDIR)/usr/share/doc/ibnet README.md SECURITY.md ibnet.toml.example
	install -D -m 644 -t $(DESTDIR)/usr/share/doc/ibnet/docs docs/*.md docs/*.svg
	[ -e $(DESTDIR)/etc/ibnet/ibnet.toml ] || install -D -m 644 packaging/ibnet.toml $(DESTDIR)/etc/ibnet/ibnet.toml
	@[ -n "$(DESTDIR)" ] || ./scripts/installed

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
	@./target/release/ibnet-view latency '$(DEMO)/*.jsonl' -o $(DEMO)/latency.svg > $(DEMO)/latency.txt
	@echo
	@echo "pictures  $(DEMO)/heatmap.png (who is busy and who waits, when), map.svg (where: open it in a browser), job.svg (a job in it), latency.svg"

test: deps tools ## Every tier but hardware, with the real tools, servers and stores
	$(RUN_TESTS) --no-default-features
	IBNET_REQUIRE_IBSIM=1 IBNET_REQUIRE_NATS=1 $(RUN_TESTS)
	$(CARGO) test --doc

lint: deps deny ## Format, lints, documentation and licences: nothing may be said
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy --all-targets --no-default-features -- -D warnings
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --no-deps

# Known only to who has it: `make audit` fetches the database of advisories, this does without.
deny: ## Licences and sources of all crates
	@if $(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --quiet --locked cargo-deny; then \
	    $(CARGO) deny --log-level error check licenses bans sources; \
	else \
	    echo "SKIPPED: cargo-deny is not there and could not be installed; licences and sources were not looked at" >&2; \
	fi

audit: ## Known faults of all crates; needs the network
	$(CARGO) deny check advisories

bench: deps ## Measure, and print the tables of docs/performance.md
	$(CARGO) bench --bench codec
	$(CARGO) bench --bench partition --no-default-features
	$(CARGO) bench --bench scale --no-default-features
	$(CARGO) bench --bench sinks
	$(CARGO) bench --bench view --no-default-features
	$(CARGO) bench --bench ibsim

# Without a sanitizer the stable toolchain will do.
fuzz: ## Throw made-up replies, records, net files and name maps at the readers: a minute each
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install cargo-fuzz --locked
	$(CARGO) fuzz build --sanitizer none
	$(FUZZ) mad_reply $(FUZZ_END) -max_len=2000 -len_control=0
	$(FUZZ) records $(FUZZ_END)
	@mkdir -p fuzz/corpus/net_file
	$(FUZZ) net_file fuzz/corpus/net_file tests/data/fabrics $(FUZZ_END) -max_len=4000
	$(FUZZ) name_map $(FUZZ_END)

clean: ## Remove what was built and what the demo wrote
	$(CARGO) clean
	rm -rf out fuzz/target
