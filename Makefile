# `make train` and `make test` set up .venv by themselves; it is renewed when the requirements change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers

.PHONY: train test lint bench results ladder exact clean

train: $(READY)
	$(BIN)/python -m train configs/quickstart.yaml

test: lint
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
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

results: $(READY)
	$(BIN)/python -m train.results configs/ppo_2p.yaml configs/ppo_3p.yaml configs/ppo_4p.yaml \
		configs/ppo_2p_common.yaml --seeds 0,1,2 --steps 1000000 --runs_folder runs/results

# The reference ladder: specs, deals and number of games stay as they are, so that later results can refer to it.
ladder: $(READY)
	$(BIN)/python -m train.tournament random greedy expectimax:depth=1 expectimax:depth=2 flat_mc:simulations=1000 \
		mcts:simulations=100 mcts:simulations=1000 mcts:simulations=4000 --games 200 --seed 2000000000 --out results/ladder

exact: $(READY)
	$(BIN)/python -m tests.benchmarks.exact

clean:
	rm -rf $(VENV) $(PEERS)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[train,dev]'
	touch $(READY)
