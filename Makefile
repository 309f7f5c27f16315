# The two commands for a first look: `make demo` and `make test`. `make help` lists all targets.

.PHONY: help deps deps-build deps-all deps-node node deps-browser tools build build-full build-hub demo-programs live dist install install-sampler install-view install-hub packages image release test-packages test-docs demo test test-all test-kernel test-fleet test-systemd soak generate lint deny advisories bench fuzz torture measure-hub clean

CARGO ?= cargo
# zstd's C code takes a minute of CPU time to compile: the library of the system is used where it is
# installed. The check runs after `deps`, and every target sets the same variable: otherwise one
# target would compile again what another has built.
ZSTD = $(shell pkg-config --exists 'libzstd >= 1.4' 2>/dev/null && echo ZSTD_SYS_USE_PKG_CONFIG=1)
RUN = env $(ZSTD) $(CARGO)
# ibnet-hub is left out, because its page needs Node.
PROGRAMS_OF = --workspace --exclude ibnet-hub --exclude ibnet-truth --bins
BUILD = $(RUN) build --release $(PROGRAMS_OF)
BUILD_HUB = $(RUN) build --release -p ibnet-hub
# With records to NATS: needs about 75 more crates.
FULL = --features ibnet/nats
FULL_HUB = --features ibnet-hub/nats
# Manual pages and completions, written by the programs themselves.
PAGES_FEATURE = --features ibnet/pages

# Debian packages: to build, for `make test`, and more for `make test-all`.
BUILD_PACKAGES = libibumad-dev libibmad-dev libclang-dev libzstd-dev pkg-config
TEST_PACKAGES = ibsim-utils libumad2sim0 infiniband-diags opensm python3
ALL_PACKAGES = openssl python3-venv jq rpm lintian rpmlint mstflint
# To bundle the page of ibnet-hub, and to test it in a browser.
NODE_PACKAGES = nodejs npm
BROWSER_PACKAGES = chromium

# The samplers of the demo: the first host of each of eight leaf switches.
SAMPLERS = node[00001,00025,00049,00073,00097,00121,00145,00169]
DEMO = out/demo

# cargo-nextest if it is installed, else cargo's own test runner, which `NEXTEST=` selects.
NEXTEST = $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo yes)
# Many tests wait for programs or for the end of a slot: three tests for each core run at a time.
THREADS = --test-threads $(shell echo $$((3 * $$(nproc))))
ALL = --workspace --all-features
# All tests but the doc tests, which nextest cannot run. A failed test does not hide the others.
TESTS = $(RUN) $(if $(NEXTEST),nextest run --no-fail-fast $(THREADS),test --no-fail-fast) $(ALL) --lib --bins --tests
# A test that needs more than the packages of `make deps` is in a module with one of these names.
HEAVY = with_browser with_nats with_tools
LIGHT = $(if $(NEXTEST),-E 'not test(/$(subst $(SPACE),|,$(HEAVY:%=\b%::))/)',-- $(HEAVY:%=--skip %::))
EMPTY =
SPACE = $(EMPTY) $(EMPTY)
# The hub without its page, which needs Node. The page is not a part of `make test`.
NO_PAGE = IBNET_HUB_PAGE=$(CURDIR)/hub/src/http/placeholder

# Seconds for each target of `make fuzz`.
FUZZ_SECONDS ?= 60
FUZZ = $(RUN) fuzz run --sanitizer none
FUZZ_END = -- -max_total_time=$(FUZZ_SECONDS) -timeout=10 -verbosity=0 -print_final_stats=1

help: ## Print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

deps-build:
	@./scripts/deps $(BUILD_PACKAGES)

deps: ## Install the Debian packages that `make build` and `make test` need
	@./scripts/deps $(BUILD_PACKAGES) $(TEST_PACKAGES)

deps-all: deps
	@./scripts/deps $(ALL_PACKAGES)

deps-node: deps-build
	@command -v npm >/dev/null 2>&1 || ./scripts/deps $(NODE_PACKAGES)

node: deps-node
	@command -v npm >/dev/null 2>&1 || { \
	    echo "packages: ibnet-hub needs Node 18 or newer (found no npm in PATH); install nodejs and npm, or use HUB=no to build the other packages" >&2; \
	    exit 1; }

deps-browser: deps-node
	@command -v chromium >/dev/null 2>&1 || ./scripts/deps $(BROWSER_PACKAGES)

tools: deps-all ## Download the programs that the tests compare with, into out/tools (1.3 GB)
	@./scripts/tools

build: deps-build ## Build target/release/ibnet-gen, ibnet-sweep and ibnet-view, without NATS
	$(BUILD)

build-full: deps-build ## Build the same programs with NATS
	$(BUILD) $(FULL)

build-hub: deps-node ## Build target/release/ibnet-hub, without NATS
	$(BUILD_HUB)

# The profile `demo` compiles faster than `release`, and its programs are fast enough to show. They have
# no libibumad: the demo needs no system package but a C compiler. `make build` compiles again.
demo-programs:
	@./scripts/deps
	$(RUN) build --profile demo $(PROGRAMS_OF) --no-default-features

live: deps-node ## Show a simulated fabric live in a browser: prints the address of the page
	$(RUN) build --profile demo -p ibnet-hub
	./target/demo/ibnet-hub --simulate examples/stria.p

# HUB=no leaves ibnet-hub out of `make dist` and `make packages`: its page needs Node.
HUB ?= yes
WITH_HUB = $(filter-out no,$(HUB))
# GLIBC=2.28 builds for this version of the C library, or a newer one.
GLIBC ?=
DIST = target/$(if $(GLIBC),x86_64-unknown-linux-gnu/)dist

dist: deps-all $(if $(WITH_HUB),node) ## Build the programs for packages into target/dist: with NATS, LTO, no symbols
	$(if $(GLIBC),./scripts/build-for-glibc $(GLIBC),$(RUN) build) --profile dist --workspace --exclude ibnet-truth $(if $(WITH_HUB),$(FULL_HUB),--exclude ibnet-hub) --bins $(FULL) $(PAGES_FEATURE)

# `make install` copies the programs of PROGRAMS to DESTDIR; packages set PROGRAMS=target/dist.
DESTDIR ?=
PROGRAMS ?= target/release
UNITS = $(DESTDIR)/usr/lib/systemd/system

# Pages and completions that `--write-pages` has written: scripts/packages sets PAGES. Without PAGES
# they are not installed.
PAGES ?=
SHARE = $(DESTDIR)/usr/share
# $(call install_pages,PROGRAM): the manual pages and the completions of one program.
define install_pages
	@[ -z "$(PAGES)" ] || { \
	    install -D -m 644 -t $(SHARE)/man/man8 $(PAGES)/man/$(1)*.8 && \
	    install -D -m 644 $(PAGES)/bash/$(1) $(SHARE)/bash-completion/completions/$(1) && \
	    install -D -m 644 $(PAGES)/zsh/_$(1) $(SHARE)/zsh/vendor-completions/_$(1) && \
	    install -D -m 644 $(PAGES)/fish/$(1).fish $(SHARE)/fish/vendor_completions.d/$(1).fish; }
endef

install: install-sampler install-view ## Install the programs and the service (as root, after `make build`)
	@[ -n "$(DESTDIR)" ] || ./scripts/installed

# The pages with everything that they refer to.
DOC = $(SHARE)/doc/ibnet

install-sampler:
	install -D -m 755 -t $(DESTDIR)/usr/bin $(PROGRAMS)/ibnet-gen $(PROGRAMS)/ibnet-sweep
	install -D -m 644 -t $(UNITS) packaging/ibnet-sweep.service packaging/ibnet-sweep@.service
	install -D -m 644 -t $(UNITS) packaging/ibnet-topology.service packaging/ibnet-topology.timer
	install -D -m 755 -t $(DESTDIR)/usr/lib/ibnet packaging/ibnet-topology
	install -D -m 644 packaging/ibnet.sysusers $(DESTDIR)/usr/lib/sysusers.d/ibnet.conf
	install -D -m 644 packaging/ibnet.tmpfiles $(DESTDIR)/usr/lib/tmpfiles.d/ibnet.conf
	install -D -m 644 -t $(DESTDIR)/usr/lib/udev/rules.d packaging/60-ibnet-umad.rules
	install -D -m 644 -t $(DOC) README.md SECURITY.md CHANGELOG.md CONTRIBUTING.md ibnet.toml.example ibnet-hub.toml.example
	install -D -m 644 -t $(DOC)/docs docs/*.md docs/*.svg
	install -D -m 644 -t $(DOC)/docs/inside docs/inside/*.md
	install -D -m 644 -t $(DOC)/examples examples/*.png examples/*.svg
	install -D -m 644 -t $(DOC)/hub hub/openapi.json
	install -D -m 644 -t $(DOC)/packaging packaging/ibnet-sweep.service
	install -D -m 644 -t $(DOC)/packaging/ibnet-sweep.service.d packaging/ibnet-sweep.service.d/*
	install -D -m 644 -t $(DOC)/packaging/clickhouse packaging/clickhouse/*
	install -D -m 644 -t $(DOC)/packaging/duckdb packaging/duckdb/*
	install -D -m 644 -t $(DOC)/packaging/fluent-bit packaging/fluent-bit/*
	install -D -m 644 -t $(DOC)/packaging/vector packaging/vector/*
	install -D -m 644 -t $(DOC)/packaging/grafana packaging/grafana/*
	install -D -m 644 -t $(DOC)/packaging/prometheus packaging/prometheus/*
	install -D -m 644 -t $(DOC)/tests/torture tests/torture/README.md tests/torture/exact.py
	[ -e $(DESTDIR)/etc/ibnet/ibnet.toml ] || install -D -m 640 packaging/ibnet.toml $(DESTDIR)/etc/ibnet/ibnet.toml
	$(call install_pages,ibnet-gen)
	$(call install_pages,ibnet-sweep)

install-view:
	install -D -m 644 -t $(UNITS) packaging/ibnet-pack.service packaging/ibnet-pack.timer
	install -D -m 644 packaging/ibnet.sysusers $(DESTDIR)/usr/lib/sysusers.d/ibnet-view.conf
	install -D -m 755 -t $(DESTDIR)/usr/bin $(PROGRAMS)/ibnet-view
	$(call install_pages,ibnet-view)

install-hub: ## Install ibnet-hub and its service (as root, after `make build-hub`)
	install -D -m 755 -t $(DESTDIR)/usr/bin $(PROGRAMS)/ibnet-hub
	install -D -m 644 -t $(UNITS) packaging/ibnet-hub.service
	install -D -m 644 packaging/ibnet.sysusers $(DESTDIR)/usr/lib/sysusers.d/ibnet-hub.conf
	install -D -m 644 -t $(SHARE)/doc/ibnet-hub ibnet-hub.toml.example docs/hub.md hub/openapi.json
	[ -e $(DESTDIR)/etc/ibnet/ibnet-hub.toml ] || install -D -m 640 packaging/ibnet-hub.toml $(DESTDIR)/etc/ibnet/ibnet-hub.toml
	$(call install_pages,ibnet-hub)
	@[ -n "$(DESTDIR)" ] || ./scripts/installed

test-packages: deps-all deps-node ## Install, upgrade, downgrade and remove packages of the programs in target/debug
	$(RUN) build --bins $(ALL)
	./scripts/test-packages target/debug

# Not a part of `make test`: it installs a Debian system and takes five minutes. DOCS="README.md
# docs/hub.md" runs these pages only.
DOCS ?=

test-docs: deps-node tools ## Run the commands of the pages from the installed packages in a clean Debian
	$(RUN) build --bins $(ALL)
	$(RUN) build --example host_exporters --all-features
	./tests/docs/run target/debug $(DOCS)

image: build-full ## Build the container images with buildah, and sweep a simulated fabric in one
	./scripts/deps buildah mmdebstrap
	./scripts/test-image target/release

packages: dist ## Build .deb and .rpm packages into out/packages; needs Node, or HUB=no; GLIBC=2.28 for RHEL 8
	GLIBC=$(GLIBC) ./scripts/packages $(DIST) sampler view $(if $(WITH_HUB),hub)

# SIGN_KEY is a secret key of gpg. UNSIGNED=yes makes a release without a signature.
SIGN_KEY ?=
UNSIGNED ?=

release: ## Make signed packages and images from a clean checkout, in out/release: SIGN_KEY=KEY, or UNSIGNED=yes
	@SIGN_KEY='$(SIGN_KEY)' UNSIGNED='$(UNSIGNED)' ./scripts/release $(DIST)

demo: demo-programs ## Plan and sweep a simulated fabric and draw its congestion: 2 to 4 minutes with the build
	@mkdir -p $(DEMO)
	@rm -f $(DEMO)/*.jsonl
	./target/demo/ibnet-gen --net examples/stria.p --samplers '$(SAMPLERS)' -o $(DEMO)/assignments.toml
	@echo
	./target/demo/ibnet-sweep -c examples/demo.toml --sweeps 20 --summary -o $(DEMO)/
	@echo
	./target/demo/ibnet-view errors '$(DEMO)/*.jsonl'
	@echo
	./target/demo/ibnet-view links '$(DEMO)/*.jsonl' --tree --top 1
	@echo
	@./target/demo/ibnet-view health '$(DEMO)/*.jsonl' -o $(DEMO)/health.txt
	@head -n 9 $(DEMO)/health.txt
	@./target/demo/ibnet-view heatmap '$(DEMO)/*.jsonl' --metric xmit_utilization,xmit_blocked --by switch -o $(DEMO)/heatmap.png
	@./target/demo/ibnet-view map '$(DEMO)/*.jsonl' -o $(DEMO)/map.svg
	@./target/demo/ibnet-view job '$(DEMO)/*.jsonl' --nodes 'node[00001-00008,00025-00032]' -o $(DEMO)/job.svg > $(DEMO)/job.txt
	@./target/demo/ibnet-view latency '$(DEMO)/*.jsonl' -o $(DEMO)/latency.svg > $(DEMO)/latency.txt
	@echo
	@echo "records   $(DEMO)/*.jsonl, one file for each sampler"
	@echo "pictures  $(DEMO)/heatmap.png  utilization and blocked share of every switch over time"
	@echo "          $(DEMO)/map.svg      the congested links in the fabric (open it in a browser)"
	@echo "          $(DEMO)/job.svg      the traffic of 16 hosts; numbers in job.txt"
	@echo "          $(DEMO)/health.txt   cables whose lanes get worse, with serial numbers"
	@echo "          $(DEMO)/latency.svg  how fast the devices answer; numbers in latency.txt"

# The tests must leave no file in the checkout.
RUN_TESTS = ./scripts/unchanged ./scripts/run-tests

test: deps ## Run all tests that need only `make deps` (290 MB): 7 to 13 minutes, 3 to 7 when built
	@$(RUN_TESTS) "env $(NO_PAGE) $(TESTS) $(LIGHT)"

# The packages are made of the programs of the tests. The third command runs only what differs in a
# smaller build.
test-all: deps-browser tools ## The same, and with databases, NATS, Prometheus, a browser and packages (1.8 GB)
	@$(RUN) build --example host_exporters --all-features
	@$(RUN_TESTS) "$(TESTS)" "./scripts/test-packages target/debug" \
	    "$(RUN) $(if $(NEXTEST),nextest run,test) --workspace --exclude ibnet-hub --no-default-features --test features" \
	    "$(RUN) test --doc $(ALL)"

# The guests run the programs of `make build`. KERNEL_PROGRAMS=target/debug uses those of `cargo
# build`, and KERNEL_SCENARIOS="10-first-light 60-plug" runs only these files.
KERNEL_PROGRAMS ?= target/release
KERNEL_SCENARIOS ?=

test-kernel: $(if $(filter target/release,$(KERNEL_PROGRAMS)),build) ## Test with two Linux kernels and a mock HCA in QEMU; nothing is installed
	@$(if $(filter target/debug,$(KERNEL_PROGRAMS)),$(RUN) build -p ibnet --bins --example registers --all-features)
	@$(if $(filter target/release,$(KERNEL_PROGRAMS)),$(RUN) build --release -p ibnet --example registers)
	./tests/kernel/run $(KERNEL_PROGRAMS) $(KERNEL_SCENARIOS)

# A real systemd in QEMU runs the installed services. Takes two minutes with KVM.
test-systemd: deps-all deps-node ## Test the packages and the services with a real systemd in QEMU; nothing is installed
	$(RUN) build --bins $(ALL)
	./tests/systemd/run target/debug

# Options of tests/fleet/soak.py. The large fleet:
# FLEET="--samplers 300 --ports 40000 --seconds 600 --away 60"
FLEET ?=

test-fleet: build-full deps-node tools ## 20 samplers with NATS, archive and hub for a minute; the server is killed in the middle
	$(BUILD_HUB) $(FULL_HUB)
	./tests/fleet/soak.py $(FLEET)

# Those that are also run with SMPs by directed routes.
ROUTED_SCENARIOS = 10-first-light 20-counters 25-verify 27-clear 28-registers 30-faults 40-changes 42-peers 44-managers 45-traps 46-routes 48-planarized 50-process

# Number of repetitions of `make soak`.
SOAK_RUNS ?= 20

soak: deps-browser tools build test-systemd ## Repeat the tests on a loaded machine and the kernels SOAK_RUNS (20) times, and torture: many hours
	$(RUN) build --release -p ibnet --example registers
	./scripts/under-load --runs $(SOAK_RUNS) make test-all
	./scripts/under-load --runs $(SOAK_RUNS) --cores one --load 0 make test
	IBNET_TEST_SMP=directed $(RUN) test -p ibnet --all-features --test simulated --test ibsim
	IBNET_TEST_SMP=directed ./tests/kernel/run $(KERNEL_PROGRAMS) $(ROUTED_SCENARIOS)
	@for run in $$(seq $(SOAK_RUNS)); do \
	    echo "soak: run $$run of $(SOAK_RUNS)"; \
	    IBNET_REGISTER_IMAGES=$$((run * 500))-$$((run * 500 + 499)) ./tests/kernel/run $(KERNEL_PROGRAMS) $(KERNEL_SCENARIOS) || exit 1; \
	    ./tests/slurm/run target/release || exit 1; \
	done
	./tests/slurm/topology target/release
	$(MAKE) --no-print-directory test-fleet
	$(MAKE) --no-print-directory torture TORTURE_MINUTES=60 TORTURE_DEPTH=20
	$(RUN) bench -p ibnet --no-default-features --bench scale -- links
	from=$$(date +%s); IBNET_SEEDS=$$from-$$((from + 40)) $(RUN) test $(ALL) --test recompute

# TORTURE_PROGRAMS=/usr/bin attacks the installed programs. Root is needed for full disks. Each run has
# another seed; TORTURE_ARGS="--seed N" repeats one. HUB=no leaves ibnet-hub out, which needs Node.
TORTURE_MINUTES ?= 0
TORTURE_DEPTH ?= 1
TORTURE_PROGRAMS ?= target/release
TORTURE_PYTHON = $(firstword $(wildcard out/tools/python/bin/python) python3)

torture: $(if $(filter target/release,$(TORTURE_PROGRAMS)),build-full $(if $(WITH_HUB),deps-node)) $(if $(filter-out 0,$(TORTURE_MINUTES)),tools) ## Attack the programs for ten minutes, then TORTURE_MINUTES (0) of random faults
	$(if $(WITH_HUB),$(if $(filter target/release,$(TORTURE_PROGRAMS)),$(BUILD_HUB) $(FULL_HUB)))
	$(TORTURE_PYTHON) tests/torture/run --programs $(TORTURE_PROGRAMS) --minutes $(TORTURE_MINUTES) --depth $(TORTURE_DEPTH) $(TORTURE_ARGS)

# The packages of package-lock.json, if they are missing or older.
PAGE_PACKAGES = cd hub/page && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --ignore-scripts; }

generate: deps-node ## Update the documents, the SQL and the types of the page that are made from the code
	$(CARGO) run --no-default-features --example records
	$(PAGE_PACKAGES)
	npm --prefix hub/page run --silent types

lint: deps-node deny advisories ## Check format, lints, documentation, licences and advisories
	$(CARGO) fmt --all --check
	$(RUN) clippy $(ALL) --all-targets -- -D warnings
	$(RUN) clippy --workspace --all-targets --no-default-features -- -D warnings
	RUSTDOCFLAGS=-Dwarnings $(RUN) doc $(ALL) --no-deps
	$(PAGE_PACKAGES)
	npm --prefix hub/page run --silent check

# cargo-deny is compiled without optimization where it is missing: it runs for seconds, and an
# optimized build of it takes minutes.
DENY = $(CARGO) deny --log-level error
HAVE_DENY = $(CARGO) deny --version >/dev/null 2>&1 || \
            env CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --quiet --locked --debug cargo-deny

deny: ## Check licences and sources of all crates
	@if $(HAVE_DENY); then \
	    $(DENY) check licenses bans sources; \
	else \
	    echo "SKIPPED: cargo-deny is not installed and cannot be built; licences and sources are not checked" >&2; \
	fi

advisories: deny ## Check all crates for known vulnerabilities; needs the network
	@if ! $(CARGO) deny --version >/dev/null 2>&1; then \
	    echo "SKIPPED: cargo-deny is not installed; advisories are not checked" >&2; \
	elif timeout 60 $(DENY) fetch db >/dev/null 2>&1; then \
	    $(DENY) check --disable-fetch advisories; \
	else \
	    echo "SKIPPED: the advisory database cannot be fetched; advisories are not checked" >&2; \
	fi

bench: deps ## Measure, and print the tables of docs/inside/performance.md
	$(RUN) bench $(ALL) --bench codec --bench partition --bench scale --bench sinks --bench view --bench archive --bench ibsim

# The page is bundled first: the program embeds this bundle, and the views are measured with it.
# HUB_FLEET="--fast --seconds 120" plays fewer slots than 15 minutes, without waiting.
measure-hub: deps-browser build ## Measure ibnet-hub and its page, and print the figures of docs/inside/performance.md
	npm --prefix hub/page ci --no-audit --no-fund --ignore-scripts
	npm --prefix hub/page run --silent build
	$(BUILD_HUB)
	cd hub/page && node dev/measure.mjs
	./tests/fleet/hub.py $(HUB_FLEET)

# Fuzzing without a sanitizer works with the stable toolchain.
fuzz: ## Fuzz the parsers of replies, records, net files and name maps: one minute each
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install cargo-fuzz --locked
	$(RUN) fuzz build --sanitizer none
	$(FUZZ) mad_reply $(FUZZ_END) -max_len=2000 -len_control=0
	$(FUZZ) records $(FUZZ_END)
	@mkdir -p fuzz/corpus/net_file
	$(FUZZ) net_file fuzz/corpus/net_file tests/data/fabrics $(FUZZ_END) -max_len=4000
	$(FUZZ) name_map $(FUZZ_END)

clean: ## Remove everything that was built, and the output of the demo
	$(CARGO) clean
	rm -rf out fuzz/target
