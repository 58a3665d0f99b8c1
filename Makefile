# The two commands are `make demo` and `make test`; everything is installed into .venv at the top of the clone.
SHELL := /bin/sh
.DELETE_ON_ERROR:
.SUFFIXES:

# ansible-core 2.19 runs on Python 3.11 to 3.13.
PYTHON := $(shell for p in python3 python3.11 python3.12 python3.13; do \
	if $$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; \
	then command -v $$p; break; fi; done)
BIN := $(CURDIR)/.venv/bin
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input
export PATH := $(BIN):$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
PYTEST := $(BIN)/python -m pytest
LAB_PACKAGES := systemd-container mmdebstrap iproute2 nftables openssh-client

.PHONY: help demo env test lint unit integration mutations here-test bench bench-lab build clean lab lab-down lab-packages lab-test

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: .venv/.demo ## provision and train on two nodes that are both this machine
	ansible-playbook site.yml
	ansible-playbook launch.yml -e script=files/train.py

env: .venv/.demo ## the environment of the two local nodes alone
	ansible-playbook site.yml

# The lab's hosts wait for each other much of the time, so both halves run side by side, each with its output in one piece.
test: lint env ## everything that can run on this machine
	@echo "make test: this machine's tests and the lab's run side by side; each prints when it is done, after some 30 minutes"
	@$(MAKE) --no-print-directory -j2 --output-sync=target here-test lab-test

lint: .venv/.dev ## ruff, mypy, yamllint, ansible-lint
	ruff check .
	mypy
	yamllint --strict .
	ansible-lint --offline --strict

here-test: .venv/.dev
	$(PYTEST) tests/unit
	$(PYTEST) tests/integration
	$(PYTEST) tests/mutations

unit: .venv/.dev env ## pure functions, tables, the packaged script
	$(PYTEST) tests/unit

integration: .venv/.dev env ## the playbooks on the two local nodes
	$(PYTEST) tests/integration

mutations: .venv/.dev env ## proof that the tests fail where a feature is taken out
	$(PYTEST) tests/mutations

lab: .venv/bin/python ## five real hosts on this machine (root); the last line is an inventory of them
	@$(BIN)/python -m tests.lab up

lab-down: .venv/bin/python ## remove the lab again
	@$(BIN)/python -m tests.lab down

lab-packages: ## Debian's packages that the lab needs here (root)
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(LAB_PACKAGES)

lab-test: .venv/.dev ## site.yml and what it promises on real hosts, where this machine can boot them (root)
	$(PYTEST) tests/lab

bench: .venv/.dev env ## figures of the docs: medians of paired runs
	$(BIN)/python tests/bench/launch_latency.py
	$(BIN)/python tests/bench/restarts.py

bench-lab: .venv/.dev ## figures of site.yml on real hosts (root)
	$(BIN)/python tests/bench/provision.py

build: .venv/.demo ## the collection as ansible-galaxy installs it, in dist/
	ansible-galaxy collection build --force --output-path dist .

clean: ## remove what make has made, jobs and records included; not while a job runs
	@for lock in .muster/*/jobs/*/lock; do test ! -e "$$lock" || flock -n "$$lock" true || { \
		echo "make clean: the job of $$lock still runs, expected none; stop it by playbooks/stop.yml" >&2; exit 1; }; done
	rm -rf .venv .muster .ansible .cache .pytest_cache .mypy_cache .ruff_cache dist runs

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "make: found no Python 3.11 to 3.13 with venv, expected one as python3; install it" \
		"(Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.demo: requirements.txt | .venv/bin/python
	$(PIP_INSTALL) -r requirements.txt
	@touch $@

.venv/.dev: requirements-dev.txt .venv/.demo
	$(PIP_INSTALL) -r requirements-dev.txt
	@touch $@
