# `make` lists what can be done here.

# Building needs no database: .sqlx/ holds what the SQL macros have to know.
export SQLX_OFFLINE = true

.PHONY: help setup run test contract contract-real bench lint deny

help:  ## lists what can be done
	@sed -n 's/^\([a-z-]*\):.*  ## /  make \1\t/p' Makefile

setup:  ## fetches the private Postgres and the model, and says what else is missing
	scripts/setup

run: setup  ## builds the server and starts it
	cargo build --release --locked --package skymem
	target/release/skymem serve

test: setup lint  ## checks and tests everything, on a throw-away database
	scripts/with-postgres scripts/test

contract: setup  ## has OpenAI's own client and LangChain talk through skymem to a scripted model server
	scripts/with-postgres scripts/contract

contract-real: setup  ## the same with a small real language model, which is fetched first (130 MB)
	scripts/with-postgres scripts/contract real

bench: setup  ## measures speed, recall on the conversations in LOCOMO=file, follow-ups on those in CAST=file, facts in utterances
	cargo build --release --locked --package skymem --package skymem-bench
	$(if $(LOCOMO),target/release/skymem-bench retrieval $(LOCOMO),@echo 'recall is not measured: name conversations with make bench LOCOMO=file')
	$(if $(CAST),target/release/skymem-bench followups $(CAST) $(if $(MODEL_URL),--model-url $(MODEL_URL) --model $(MODEL)),@echo 'follow-ups are not measured: name conversations with make bench CAST=file')
	target/release/skymem-bench facts $(if $(MODEL_URL),--model-url $(MODEL_URL) --model $(MODEL))
	target/release/skymem-bench latency
	target/release/skymem-bench ingest
	target/release/skymem-bench proxy

lint:  ## checks the format and the lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

deny:  ## checks licences, sources and duplicates of the dependencies
	cargo deny --locked check --hide-inclusion-graph bans licenses sources
