# `make` alone prints what there is. The first target that needs it sets up .venv, which is renewed when the requirements
# change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers

# Test files whose tests work, and end in reasonable time, without the JIT.
NOJIT_TESTS := tests/test_game.py tests/test_deal.py tests/test_reward.py tests/test_notation.py tests/test_facts.py \
	tests/test_symmetry.py tests/test_aec_arguments.py tests/test_aec_reset_and_seeds.py tests/test_aec_illegal_actions.py

# Two processes, each with whole files, since the tests of a file share what they train or compile.
TWO_CORES := --numprocesses 2 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help train test check lint format test-nojit fuzz bench results ladder exact clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | column -t -s @ 2>/dev/null || \
		sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1: \2/p' $(MAKEFILE_LIST)

train: $(READY) ## train configs/quickstart.yaml and evaluate it: a first agent in minutes
	$(BIN)/python -m train configs/quickstart.yaml

test: lint ## lint and all tests, on two cores
	$(BIN)/python -m pytest $(TWO_CORES)

check: lint ## lint and the fast tests, in under a minute once kernels are compiled
	$(BIN)/python -m pytest $(TWO_CORES) -m "not slow"

lint: $(READY) ## style, format, types and the order of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## format the code and mend what ruff can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test-nojit: $(READY) ## the rules, deals, notation and environment in plain Python, without the JIT
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest $(NOJIT_TESTS)

fuzz: $(READY) ## 2,000 damaged files and arguments; every one must be refused in one line
	$(BIN)/python -m tests.fuzz --cases 2000

bench: $(READY) ## measure speed beside other libraries; tables go to results/bench.md
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[bench]'
	-$(MAKE) $(PEERS)/.ready
	$(BIN)/python -m tests.benchmarks

# What `bench` compares with and the project itself does not need. What cannot be had is tried again the next time;
# `bench` goes on without it.
$(PEERS)/.ready: $(READY) constraints.txt
	test -x $(PEERS)/bin/python || $(BIN)/python -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --constraint constraints.txt --only-binary open_spiel 'open_spiel>=1.5'; \
	open_spiel=$$?; \
	$(PEERS)/bin/pip install --quiet --constraint constraints.txt 'pgx>=2.6' jax && exit $$open_spiel
	touch $@

results: $(READY) ## train the standard configs under three seeds and print the table of docs/results.md
	$(BIN)/python -m train.results configs/ppo_2p.yaml configs/ppo_3p.yaml configs/ppo_4p.yaml \
		configs/ppo_2p_common.yaml --seeds 0,1,2 --steps 1000000 --runs_folder runs/results

# Specs, deals and number of games stay as they are, so that later results can refer to the ladder.
ladder: $(READY) ## play the reference ladder of search agents
	$(BIN)/python -m train.tournament random greedy expectimax:depth=1 expectimax:depth=2 flat_mc:simulations=1000 \
		mcts:simulations=100 mcts:simulations=1000 mcts:simulations=4000 --games 200 --seed 2000000000 --out results/ladder

exact: $(READY) ## solve the ends of games and mini3, and print the tables of docs/results.md
	$(BIN)/python -m tests.benchmarks.exact

clean: ## remove the virtual environments
	rm -rf $(VENV) $(PEERS)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[train,dev]'
	touch $(READY)
