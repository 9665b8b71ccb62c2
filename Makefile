.PHONY: help run dist check test ecosystem lint fmt contract clients bench load chaos postgres skew fuzz image release-check
.DEFAULT_GOAL := help

help: ## List the targets
	@sed -n 's/^\([a-z-]*\): ## \(.*\)/\1	\2/p' Makefile

run: ## Serve this folder on 127.0.0.1:50551
	cargo run --release -- serve

dist: ## Build static programs for Linux on x86-64 and arm64 and all packages with them, in target/packages (TARGETS)
	@tests/release/dist.sh $(TARGETS)

check: ## Run what every commit has to pass: format, lints, unit tests
	@tests/run.sh format clippy unit

test: ## Run every test; installs what they need in target/tools
	@tests/run.sh

ecosystem: ## Run the programs of others that Toolgate is tested with, from their registries, and keep what passed in docs/
	cargo build --locked
	TOOLGATE_TARGET="$(abspath $(or $(CARGO_TARGET_DIR),target))" TOOLGATE_BIN= tests/ecosystem/run.sh

lint: ## Run the checks that start nothing: format, clippy, buf
	@tests/run.sh format clippy buf-lint buf-format buf-breaking

fmt: ## Format the sources and the contract
	cargo fmt
	cd proto && PATH="$(abspath $(or $(CARGO_TARGET_DIR),target))/tools/bin:$$PATH" buf format -w

contract: ## Make proto/ the landed contract, with which `make lint` compares every later change
	PATH="$(abspath $(or $(CARGO_TARGET_DIR),target))/tools/bin:$$PATH" tests/contract/run.sh renew

clients: ## Generate what is kept of the contract in the repository: stubs in Python, TypeScript, Go, and the console
	@for language in python typescript go; do \
		TOOLGATE_TARGET="$(abspath $(or $(CARGO_TARGET_DIR),target))" \
		PATH="$(abspath $(or $(CARGO_TARGET_DIR),target))/tools/bin:$$PATH" \
		sh -c "clients/$$language/run.sh setup && clients/$$language/run.sh generate" || exit 1; \
	done
	clients/console/run.sh setup
	clients/console/run.sh build

image: ## Build the images toolgate:VERSION and toolgate:VERSION-static with Docker
	@version="$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)" && revision="$$(git rev-parse HEAD)" && \
		docker build --build-arg REVISION="$$revision" --tag toolgate --tag "toolgate:$$version" . && \
		docker build --build-arg REVISION="$$revision" --target toolgate --tag toolgate:static --tag "toolgate:$$version-static" .

bench: ## Measure the figures that Toolgate is to reach; with TOOLGATE_UPDATE_DOCS=1 docs/reference/performance.md is written anew
	cargo bench --bench ratios

load: ## Put 1,000 running calls and 2,000 watchers on the service, more than it allows, old calls to delete, and 500,000 calls
	cargo bench --bench load

chaos: ## Kill gateways, workers and their database again and again while people answer prompts
	TOOLGATE_CHAOS=long cargo test --test it -- --nocapture --test-threads 1 gateway::chaos:: fleet::chaos::

postgres: ## Run the tests of the store with PostgreSQL on versions 14, 16, 17 and 18
	@tests/setup/postgres.sh

skew: ## Run the tests of a fleet with workers and gateways of an earlier commit or tag (EARLIER), which is built first
	@tests/setup/skew.sh $(EARLIER)

fuzz: ## Feed parsers, matchers and the judge of commands with what nobody would write, a minute each (FUZZ_SECONDS)
	@tests/fuzz/run.sh

release-check: ## Build every package as it is published, and use each in an empty project; publishes nothing
	@tests/release/run.sh
