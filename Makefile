SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Linters are pinned in a module of their own, so that users of the library do
# not inherit what they require.
TOOL := go tool -modfile=tools/go.mod

FUZZTIME ?= 60s
BENCH ?= .
BENCHTIME ?= 0.5s
BENCHCOUNT ?= 5
BENCHFLAGS ?=
SEEDS ?= 10000
SEED ?= 1

.PHONY: help build test race e2e bench bench-guard bench-agent bench-idle bench-herd bench-podsources fuzz lint soak mutants

help: ## list the targets
	@sed -nE 's/^([a-z0-9-]+): .*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

build: ## build the command line into bin/
	go build -o bin/nodewatch ./cmd/nodewatch

test: ## run the tests
	go test ./...

race: ## run the tests under the race detector
	go test -race ./...

soak: ## run SEEDS (10000) seeds of the fault simulator, from SEED (1) on
	go test -count=1 -timeout 2h -run '^TestSeeds$$' ./reflector/simulator -sim.seeds=$(SEEDS) -sim.from=$(SEED) -v

mutants: ## plant known bugs one at a time and show that the simulator finds each
	go test -count=1 -timeout 1h -tags mutants -run '^TestMutants$$' ./reflector/simulator -v

e2e: ## run the suites against a real kube-apiserver and etcd (builds them first)
	cd test/e2e && go test -timeout 30m ./...

# The output of BENCHCOUNT runs, with what a reader must know of the machine. Each run is a
# process that measures every row once, so that ours and client-go's alternate.
define bench_runs
mkdir -p bin
go test -c -o bin/bench.test ./bench
{ \
	echo "go: $$(go env GOVERSION)"; \
	echo "client-go: $$(go list -m -f '{{.Version}}' k8s.io/client-go)"; \
	echo "kernel: $$(uname -sr)"; \
	for i in $$(seq $(1)); do \
		echo "load: $$(uptime | sed 's/.*average[s]*: *//')"; \
		(cd bench && ../bin/bench.test -test.run '^$$' -test.bench '$(2)' -test.benchtime $(3) $(BENCHFLAGS)); \
	done; \
} | tee bin/bench.txt
endef

bench: ## measure against client-go: bench/RESULTS.md and plots (a quarter of an hour; BENCHFLAGS=-long for 100,000 pods)
	$(call bench_runs,$(BENCHCOUNT),$(BENCH),$(BENCHTIME))
	go -C bench/report run . -plots .. < bin/bench.txt > bin/RESULTS.md
	cp bin/bench.txt bench/RESULTS.txt
	mv bin/RESULTS.md bench/RESULTS.md

bench-guard: ## fail where allocations or ratios to client-go fell behind bench/report/guards.go (a minute or two)
	$(call bench_runs,3,Decode|Watch/^link=http1$$/encoding=.*/fields=dropped/impl=(nodewatch|client-go)$$|List/^pods=1000$$/,0.2s)
	go test -run '^$$' -bench . -benchtime 5x ./bench/agent | tee -a bin/bench.txt
	go test -run '^$$' -bench 'Idle/link=tls-http1(-gzip)?$$/impl=(nodewatch|client-go)$$' -benchtime 1x ./bench/idle | tee -a bin/bench.txt
	go -C bench/report run . -guard < bin/bench.txt

# A package of benchmarks whose page is its RESULTS.md: name, runs, time of each benchmark.
define bench_page
mkdir -p bin
{ \
	echo "go: $$(go env GOVERSION)"; \
	echo "client-go: $$(go list -m -f '{{.Version}}' k8s.io/client-go)"; \
	echo "kernel: $$(uname -sr)"; \
	for i in $$(seq $(2)); do \
		echo "load: $$(uptime | sed 's/.*average[s]*: *//')"; \
		go test -count=1 -run '^$$' -bench . -benchtime $(3) ./bench/$(1); \
	done; \
} | tee bin/$(1).txt
go -C bench/report run . -page $(1) < bin/$(1).txt > bin/$(1).md
mv bin/$(1).md bench/$(1)/RESULTS.md
endef

bench-agent: ## size and start of a minimal agent beside one on client-go's informers: bench/agent/RESULTS.md (minutes when it builds anew)
	$(call bench_page,agent,3,20x)

bench-idle: ## what an idle watch costs, 1,000 of them in a process, beside client-go's: bench/idle/RESULTS.md (minutes)
	$(call bench_page,idle,3,1x)

bench-herd: ## put 2,000 clients through outages in virtual time and write bench/herd/RESULTS.md (minutes)
	cd bench/herd && go test -count=1 -timeout 30m . -args -clients 2000 -pods 30 -results .

bench-podsources: ## measure the pod sources' merge against the kubelet's and write test/e2e/podsources/RESULTS.md (a minute)
	cd test/e2e && go test -count=1 ./podsources -args -results RESULTS.md

fuzz: ## run every fuzz target for FUZZTIME (60s)
	for pkg in $$(go list ./...); do \
		list=$$(go test -list '^Fuzz' $$pkg); \
		for target in $$(grep '^Fuzz' <<<"$$list" || true); do \
			echo "== $$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$pkg; \
		done; \
	done

lint: ## gofmt, go vet, golangci-lint (with staticcheck), and promtool where it is installed
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "not gofmt-ed:" $$bad; exit 1; fi
	go vet ./...
	$(TOOL) golangci-lint run ./...
	@if command -v promtool >/dev/null; then \
		promtool check rules deploy/alerts/*.rules.yml; \
		promtool test rules deploy/alerts/*.test.yml; \
		promtool check metrics < reflector/metrics/testdata/full.prom; \
	else \
		echo "promtool is not installed: the alert rules were not checked"; \
	fi
