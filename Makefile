# Two commands matter: `make demo` and `make test`. Each does its own set-up in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# `make bench PEER=…/llama-server` compares with it, too; PEER_FLAGS are more flags for it, such as --no-repack
PEER_ARGS = $(if $(PEER),--peer $(PEER) $(if $(PEER_FLAGS),'--peer-args=$(PEER_FLAGS)'))

.PHONY: help setup demo test check verify bench clean

help:                ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 12

setup: $(VENV)/.ready-llama  ## make .venv with daneel and its llama.cpp engine in it

demo: $(VENV)/.ready-llama   ## serve a real model, run four harnesses on it, print their effectiveness
	@$(BIN)/daneel models pull smollm2-135m
	@$(BIN)/daneel measure examples/clock.py --goal now --serve smollm2-135m --trials 5 --parallel 4 --show-transcript

test: check          ## lint, types and tests (sampled forms of the long ones)
	$(BIN)/pytest -n 2 --dist loadfile

check: $(VENV)/.ready-dev    ## lint and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

verify: check        ## everything, exhaustive forms too (long)
	HYPOTHESIS_PROFILE=exhaustive $(BIN)/pytest -n 2 -m ""

bench: $(VENV)/.ready-llama  ## benchmarks: arms interleaved in one run, last line of each one JSON object
	@$(BIN)/daneel models pull smollm2-135m
	$(BIN)/python bench/parse.py
	$(BIN)/python bench/serve.py
	$(BIN)/python bench/roofline.py --quick
	$(BIN)/python bench/batch.py --quick
	$(BIN)/python bench/cpu.py --quick
	$(BIN)/python bench/gap.py --quick
	$(BIN)/python bench/restart.py --quick
	$(BIN)/python bench/trials.py --quick $(PEER_ARGS)
	$(BIN)/python bench/agents.py --quick $(PEER_ARGS)

clean:               ## remove what setup made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.ready-llama: pyproject.toml scripts/setup.py
	@$(PYTHON) scripts/setup.py llama $(VENV)
	@touch $@

$(VENV)/.ready-dev: pyproject.toml scripts/setup.py
	@$(PYTHON) scripts/setup.py dev $(VENV)
	@touch $(VENV)/.ready-llama $@
