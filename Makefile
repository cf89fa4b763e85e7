# The version a build reports: a tag, commits since, "-dirty" where something is not committed.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Without cgo the linker drops what is never called; with it, a library that can load plugins makes it keep everything,
# which costs 30 MB of memory. The version control stamp is left out, as it would link every program anew on each commit.
BUILD := CGO_ENABLED=0 go build -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)"
TOOL  := go tool -modfile=tools.mod

# The control plane needs other versions of the Kubernetes libraries than the operator, so it is a module of its own.
CONTROLPLANE := e2e/controlplane

# Everything but e2e and the shell framework, whose work is done by other processes that the race detector does not
# see, and the images of losses of power, which have goroutines of tests only.
RACE = $(shell go list ./... | grep -v -e '/e2e' -e '/sdk/shell')

KILLS  ?= 50
STORMS ?= 30
FIGHTS ?= 100

.DEFAULT_GOAL := help
.PHONY: help build controlplane run test race kills crash-images fuzz bench shape lint fmt vet generate vuln clean

help: ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## Build bin/addon-operator, bin/hooktools/jq for hooks where no jq is installed, and the sample hook in Go
	$(BUILD) -o bin/addon-operator ./cmd/addon-operator
	$(BUILD) -o bin/hooktools/jq ./cmd/jq
	$(BUILD) -o modules/050-images/hooks/collect ./modules/050-images/src/collect

controlplane: ## Build bin/controlplane, a local Kubernetes API (6 minutes the first time, then cached)
	go build -C $(CONTROLPLANE) -buildvcs=false -ldflags "-s -w" -o ../../bin/controlplane .

run: ## Run the operator with the sample modules on a local control plane; CLUSTER=current takes the kubeconfig's
	@CLUSTER="$(CLUSTER)" bash e2e/run.sh

test: build controlplane ## Run all tests: unit, end to end on a real API server, crashes
	go test -C $(CONTROLPLANE) ./...
	go test -count=1 -timeout 30m ./...

race: controlplane ## Run all tests but the end-to-end ones under the race detector
	go test -race -timeout 30m -skip LossOfPower $(RACE)

kills: build controlplane ## Kill the operator at every step, in storms and in fights for an ID; KILLS=n, STORMS=n, FIGHTS=n for other than 50, 30 and 100 rounds
	KILLS=$(KILLS) STORMS=$(STORMS) FIGHTS=$(FIGHTS) go test -count=1 -timeout 120m -v -run 'Kill|Storm|Fight' ./e2e/...

crash-images: ## Check what a loss of power can leave of the store, with 1,000 random images for each moment; CRASH_IMAGES=n for other than 1,000
	CRASH_IMAGES=$(or $(CRASH_IMAGES),1000) go test -count=1 -timeout 240m -v -run 'LossOfPower' ./store ./workflow

fuzz: ## Fuzz every parser of what hooks and users write, 30 minutes each; FUZZTIME=60s for less
	FUZZTIME=$(or $(FUZZTIME),30m) .ci/fuzz

bench: build controlplane ## Measure the operator and the engine
	go run ./e2e/bench

shape: ## Check imports and package docs, and measure how easy the source is to hold in mind
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

generate: ## Write what is made from the code: the drawn graphs in docs
	go generate ./...

vuln: ## Look for known vulnerabilities in what the program calls
	@if output=$$($(TOOL) govulncheck ./... 2>&1); then echo "$$output"; \
	elif echo "$$output" | grep -q 'fetching vulnerabilities'; then \
		echo "vuln: skipped, the vulnerability database cannot be reached: $$(echo "$$output" | tail -n 1)"; \
	else echo "$$output"; exit 1; fi

clean: ## Remove what was built, and the data of make run
	rm -rf bin .run modules/050-images/hooks
