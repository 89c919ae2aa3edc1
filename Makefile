# Everything a developer or CI runs. `make` lists it. Needs Python 3.11+ and nothing else.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
PROTOS := $(shell find protos -name '*.proto')

help: ## List the targets
	@grep -E '^[a-z]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 10

up: env ## Start the whole platform on this machine; Ctrl-C stops it
	@$(BIN)/leasehold up

test: env ## Run every test; starts the servers it needs itself
	$(BIN)/pytest

check: env ## Formatting, lint, types, contracts, house rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/buf lint
	@$(MAKE) --no-print-directory breaking
	$(BIN)/pytest -q tests/test_tidy.py

breaking: env ## Compare the contracts with those on the main branch
	@if git rev-parse -q --verify main:protos >/dev/null 2>&1; then \
		$(BIN)/buf breaking --against "$$(git rev-parse --git-common-dir)#branch=main"; \
	else echo "no protos on a main branch here: nothing to break"; fi

fmt: env ## Format Python and protobuf
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/buf format -w

bench: env ## Measure throughput and latency; prints a table, writes JSON
	$(BIN)/python -m bench

drill: env ## Kill parts of the platform under load, with many more seeds than `make test`
	LEASEHOLD_DRILL_SEEDS=$(or $(SEEDS),200) $(BIN)/pytest -m drill --timeout 0

wipe: env ## Remove the state folder: all data, keys and logs of this platform
	@$(BIN)/python -m leasehold.launcher.wipe

env: .venv/stamp.protos ## Create .venv with everything in it, generated stubs included

protos: .venv/stamp.install ## Generate the stubs again
	@echo "Generating the stubs of protos/ into leasehold/"
	@rm -f leasehold/*/v1/*_pb2*.py leasehold/*/v1/*_pb2.pyi
	@$(BIN)/python -m grpc_tools.protoc -Iprotos --python_out=. --pyi_out=. --grpc_python_out=. $(PROTOS)
	@touch .venv/stamp.protos

lock: .venv/stamp.install ## Resolve requirements.lock again from pyproject.toml
	env -u PIP_FIND_LINKS -u UV_FIND_LINKS -u UV_INDEX_URL -u UV_DEFAULT_INDEX -u UV_INDEX \
		$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --extra dev \
		--no-emit-index-url --no-annotate --custom-compile-command 'make lock' \
		pyproject.toml -o requirements.lock

.venv/stamp.protos: .venv/stamp.install $(PROTOS)
	@$(MAKE) --no-print-directory protos

# uv comes from the lock too, by pip and checked by hash. Where only pip is configured to reach
# a package index, pip also installs the rest.
.venv/stamp.install: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Leasehold needs Python 3.11 or newer; name it with make PYTHON=...")'
	@echo "Creating .venv and installing what requirements.lock names"
	@$(PYTHON) -m venv .venv
	@awk '/^[^ ]/ {ours = /^uv==/} ours' requirements.lock > .venv/uv.lock
	@$(BIN)/python -m pip install -q --require-hashes -r .venv/uv.lock
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install -q --require-hashes -r requirements.lock \
		|| $(BIN)/python -m pip install -q --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -q --no-index --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: help up test check breaking fmt bench drill wipe env protos lock
