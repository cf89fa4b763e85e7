# The version of a build: the last tag, the number of commits since, the last commit, and "-dirty" for uncommitted
# changes. Without a tag, the version begins with the last commit.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Without cgo the linker removes unused code. With cgo, a library that can load plugins makes the linker keep all code,
# and this code needs 30 MB of memory. Tests and tools are built with the settings of the programs, so that they share
# the build cache.
export CGO_ENABLED := 0
export GOFLAGS     := $(strip $(GOFLAGS) -trimpath)

# The version control stamp is off. With the stamp, every program would be linked again after each commit.
BUILD := go build -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)"
TOOL  := go tool -modfile=tools.mod

# The control plane is a separate Go module, because it needs other versions of the Kubernetes libraries than the operator.
CONTROLPLANE := e2e/controlplane
KUBERNETES   := go build -C $(CONTROLPLANE) -buildvcs=false -ldflags "-s -w" -o ../../bin/

# All packages except e2e and the shell framework. Their tests run other processes, which the race detector cannot check.
# The target race skips the tests in a browser for the same reason. It also skips the tests of power losses, because
# nearly all goroutines in these tests belong to the tests, and not to the tested code.
RACE = $(shell go list ./... | grep -v -e '/e2e' -e '/sdk/shell')

KILLS  ?= 50
STORMS ?= 30
CHAINS ?= 140
COMPETITIONS ?= 100

.DEFAULT_GOAL := help
.PHONY: help build controlplane run test race plans kills crash-kills every-step simulate histories crash-images breakages incidents alerts fuzz bench soak shape lint fmt vet generate vuln clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## Build bin/addon-operator, bin/hooktools/jq (for hooks on systems without jq) and the sample hook in Go
	$(BUILD) -o bin/addon-operator ./cmd/addon-operator
	$(BUILD) -o bin/hooktools/jq ./cmd/jq
	$(BUILD) -o modules/050-images/hooks/collect ./modules/050-images/src/collect

controlplane: ## Build bin/controlplane, a local Kubernetes API, with bin/kubectl and bin/kustomize (7 minutes the first time, then cached)
	$(KUBERNETES) . tool

bin/kubectl:
	$(KUBERNETES) k8s.io/kubernetes/cmd/kubectl

run: ## Run the operator with the sample modules on a local control plane, or with CLUSTER=current on the cluster of the kubeconfig
	@CLUSTER="$(CLUSTER)" bash e2e/run.sh

test: build controlplane ## Run all tests: unit, end to end on a real API server, crashes
	go test -C $(CONTROLPLANE) ./...
	go test -count=1 -timeout 90m ./...

race: controlplane ## Run the tests with the race detector, except end-to-end tests and tests of the shell framework, of power losses and in a browser
	CGO_ENABLED=1 go test -race -timeout 30m -skip 'LossOfPower|InABrowser' $(RACE)

plans: controlplane ## Compare plans with the converges that follow them, after random edits (PLAN_EDITS=50 PLAN_SEED=1)
	PLAN_EDITS=$(or $(PLAN_EDITS),50) PLAN_SEED=$(or $(PLAN_SEED),1) go test -count=1 -timeout 120m -v -run PlansAgree ./e2e/plan

kills: build controlplane ## Test kills of the operator at every step, in bursts of events and in competition for an ID (KILLS=50 STORMS=30 COMPETITIONS=100 rounds)
	KILLS=$(KILLS) STORMS=$(STORMS) COMPETITIONS=$(COMPETITIONS) go test -count=1 -timeout 120m -v -run 'Kill|Storm|Competition' ./e2e/...

crash-kills: ## Kill the operator with SIGKILL 2,000 times: at every step and every effect of a converge (CHAINS=140 converges with up to 10 kills, for each of two kinds of converge)
	KILLS=100 CHAINS=$(CHAINS) go test -count=1 -timeout 240m -v -run 'TestKilled' ./e2e/crash

every-step: build controlplane ## Kill the operator before and after every step of the sample modules (the flags in EVERY_STEP are added)
	bin/addon-operator test --crash-every-step . --control-plane bin/controlplane \
		--objects e2e/sample/config.yaml,e2e/sample/objects.yaml $(EVERY_STEP)

simulate: ## Simulate SIMULATE_DAYS=100000 days of the operator, from SIMULATE_SEED=1 on
	SIMULATE_DAYS=$(or $(SIMULATE_DAYS),100000) go test -count=1 -timeout 600m -v -run 'Simulated|Histories' ./e2e/simulate

histories: ## Let HISTORIES=30000 random histories happen to the engine, for each test
	go test -count=1 -timeout 240m -v -run TestWhateverHappens ./workflow -rapid.checks=$(or $(HISTORIES),30000)

crash-images: ## Check what a power loss can leave of the store, with CRASH_IMAGES=13000 random images for each moment
	CRASH_IMAGES=$(or $(CRASH_IMAGES),13000) go test -count=1 -timeout 240m -v -run 'LossOfPower' ./store ./workflow

breakages: ## Break the durability code on purpose, one place at a time, and check that the tests fail (BREAKAGES="NAME..." for some)
	go run ./e2e/breakages $(BREAKAGES)

incidents: build controlplane ## Test what the commands show to a person on call in incidents, also in incidents that take minutes
	INCIDENTS=all go test -count=1 -timeout 20m -v -run Incident ./e2e/incidents

alerts: ## Test the alerts of deploy/monitoring with promtool (the first run takes 4 minutes longer)
	go build -C e2e/promtool -buildvcs=false -tags remove_all_sd -o ../../bin/promtool github.com/prometheus/prometheus/cmd/promtool
	go run ./e2e/alerts bin/promtool

fuzz: ## Fuzz each parser of input for FUZZTIME=30m
	FUZZTIME=$(or $(FUZZTIME),30m) .ci/fuzz

bench: build controlplane ## Measure the operator and the engine
	go run ./e2e/bench

soak: ## Let the engine process SOAK_TASKS=10000000 tasks, and measure its store and its memory
	go run ./e2e/bench --only soak --soak-tasks $(or $(SOAK_TASKS),10000000)

shape: ## Check imports and package comments, and measure the structure of the source
	go test -count=1 ./internal
	go run ./e2e/shape

lint: ## Run the linters, check the format, and search for retired terms (the first run takes 2 minutes longer)
	go test -count=1 -run 'TestRetiredTerms' ./internal
	$(TOOL) golangci-lint run --allow-serial-runners ./...
	cd $(CONTROLPLANE) && go tool -modfile=../../tools.mod golangci-lint run --allow-serial-runners ./...

fmt: ## Format the code
	$(TOOL) golangci-lint fmt

vet: ## Run go vet
	go vet ./...

generate: ## Generate the graphs and the reference pages in docs from the code
	go generate ./...

vuln: ## Search the called code for known vulnerabilities
	@if output=$$($(TOOL) govulncheck ./... 2>&1); then echo "$$output"; \
	elif echo "$$output" | grep -q 'fetching vulnerabilities'; then \
		echo "vuln: skipped, the vulnerability database cannot be reached: $$(echo "$$output" | tail -n 1)"; \
	else echo "$$output"; exit 1; fi

clean: ## Delete the build results and the data of make run
	rm -rf bin .run modules/050-images/hooks
