# `make test` is for every change, and `make check` for what takes longer. CI runs both. `make help`
# lists the other targets.

# Go's test cache does not know about servers, sockets and ffmpeg, so caching is off. Vetting is off
# because `make lint` has done it. Parallel tests mostly wait, so there may be more of them than
# processors.
TESTFLAGS ?= -count=1 -timeout=30m -parallel=8 -vet=off
FUZZTIME  ?= 10s

# Packages at a time: twice the number of processors, because most tests wait for sockets and
# servers. Under the race detector the tests keep the processors busy.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
PACKAGES ?= $(shell expr 2 '*' $(PROCESSORS))

# Only the race detector needs a C compiler; scripts/race checks for one.
export CGO_ENABLED ?= 0

# go and staticcheck keep their caches in HOME, and do not start without it.
ifndef HOME
export GOPATH ?= $(shell bash -c 'echo ~/go')
export GOCACHE ?= $(shell bash -c 'echo ~/.cache/go-build')
export STATICCHECK_CACHE ?= $(GOCACHE)/staticcheck
endif

# The modules of go.work. bench, with/millracevet and tools are not in go.work, so that their
# requirements do not affect the versions that the others use.
MODULES = ./... ./redisbuf/... ./server/... ./with/sv2noise/...

# The packages that take longest start first, so that none of them runs alone at the end.
LIBRARY = . ./arena ./broadcast ./chunk ./frame/... ./media/... ./millracetest ./redisbuf ./stackbuf \
	./with/sv2noise
ALL = ./redisbuf ./server/internal/ops/page ./server/internal/server ./server/internal/live $(MODULES)

.DEFAULT_GOAL := help
.NOTPARALLEL:

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: test
test: ## Lint and test; needs Go alone, and lists at the end what was skipped and what to install
	@scripts/needs $(MAKE) --no-print-directory lint test-short test-vet

.PHONY: check
check: ## What takes longer: races, released memory poisoned, exhaustive tests, fuzzing, a simulated cluster, a minute of soak, the benchmarks' tests, other systems
	@scripts/needs $(MAKE) --no-print-directory test-race test-invariants test-full test-makes fuzz \
		simulate soak test-bench test-elsewhere vet-others test-release

.PHONY: deps
deps: ## Install what the tests run: redis-server, ffmpeg, nginx, haproxy, chromium, rtmpdump, GStreamer, OBS, pebble, PyJWT, wrk, bpftrace, compilers of C and Rust
	scripts/deps

.PHONY: lint
lint: ## gofmt, go vet, millracevet, staticcheck, and whether the planted faults still apply
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w would change:" $$unformatted >&2; exit 1; fi
	@for script in .ci/run scripts/*; do bash -n $$script || exit 1; done
	go vet $(MODULES)
	GOWORK=off go vet ./... # the library needs no other module of this repository
	go vet -tags invariants . ./arena ./stackbuf
	cd examples && GOWORK=off go vet ./...
	cd with/millracevet && GOWORK=off go vet ./... && GOWORK=off go build -o ../../bin/millracevet .
	go vet -vettool=bin/millracevet -ownership.tests=false $(MODULES) # tests make mistakes deliberately
	cd examples && GOWORK=off go vet -vettool=../bin/millracevet ./...
	$$(cd tools && GOWORK=off go tool -n staticcheck) $(MODULES)
	cd tools && GOWORK=off go vet ./... && GOWORK=off go build -o ../bin/mutants ./mutants
	bin/mutants -check

.PHONY: test-short
test-short: ## The whole suite, without what only long runs find
	go test -short -p $(PACKAGES) $(TESTFLAGS) $(ALL)

.PHONY: test-invariants
test-invariants: ## The suite of test-short with memory poisoned on release and leaks reported with stacks
	scripts/invariants -short -p $(PACKAGES) $(TESTFLAGS)

# Without -tags invariants, whose records share a mutex: a mutex hides races.
.PHONY: test-race
test-race: ## The whole suite under the race detector
	scripts/race -p $(PROCESSORS) $(TESTFLAGS) -timeout=20m -parallel=4

.PHONY: test-full
test-full: ## The whole suite at full length: every order of operations, allocations, what escapes
	go test -p $(PACKAGES) $(TESTFLAGS) $(ALL)

# Without this optimisation the stack holds exactly what the code says, which distinguishes a fault
# of the compiler from one of Buffer. The q keeps the compiler from listing every place.
.PHONY: test-makes
test-makes: ## stackbuf's tests with no make of variable size on the stack
	go test -gcflags=all=-d=variablemakehash=qn $(TESTFLAGS) ./stackbuf

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME (10s)
	scripts/fuzz $(FUZZTIME)

HISTORIES ?= 500
.PHONY: simulate
simulate: ## HISTORIES (500) of a simulated cluster, with other seeds for each commit; see docs/testing.md
	scripts/simulate $(HISTORIES)

.PHONY: soak
soak: ## One minute of streams, files and blobs at once, with restarts; see docs/soak.md
	cd bench && GOWORK=off go run ./cmd/soak --for 1m

.PHONY: soak-cluster
soak-cluster: ## One hour of a cluster with every kind of client and failure; see docs/soak.md
	cd bench && GOWORK=off go run ./cmd/soak-cluster

.PHONY: test-bench
test-bench: ## Test the benchmarks, a module of their own, with the servers and libraries that they compare
	cd with/millracevet && GOWORK=off go build -o ../../bin/millracevet .
	cd bench && export GOWORK=off && go vet ./... && go vet -vettool=../bin/millracevet ./... && go test $(TESTFLAGS) ./...

.PHONY: test-vet
test-vet: ## Test millracevet, the examples and the tools, modules of their own
	cd with/millracevet && GOWORK=off go test $(TESTFLAGS) ./...
	cd tools && GOWORK=off go test $(TESTFLAGS) ./...
	cd examples && GOWORK=off go test $(TESTFLAGS) ./...

.PHONY: test-library
test-library: ## The library's tests
	go test -short -p $(PACKAGES) $(TESTFLAGS) $(LIBRARY)

# The packages that read the environment, except tests that take longer than seconds.
READERS = . ./chunk ./internal/testkit/... ./server/cmd/millrace ./server/internal/doctor \
	./server/internal/conn/systemd ./server/internal/token
SLOW = Soak|Replacement|Memory|Owner|Publisher|Node|Redis|Network|Drain|Image|HLS
# The environments that need no root.
ENVIRONMENTS = no-home long-tmpdir odd-tmpdir variables locale umask-077 umask-000 one-cpu
.PHONY: test-elsewhere
test-elsewhere: ## What reads the environment, in those of other machines (make fresh has the rest)
	@set -e; for name in $(ENVIRONMENTS); do \
		echo "scripts/environment $$name go test"; \
		scripts/environment $$name \
			go test -short -skip '$(SLOW)' -p $(PACKAGES) $(TESTFLAGS) $(READERS); \
	done
	GOARCH=386 go test -short $(TESTFLAGS) $(LIBRARY)

.PHONY: fresh
fresh: ## The README's commands on a bare Debian, make test on other machines; needs root, takes hours
	scripts/fresh

.PHONY: test-release
test-release: ## Rehearse a release: install the command and use redisbuf as a module proxy would serve them
	scripts/release rehearse

.PHONY: vet-others
vet-others: ## Type-check what other systems build; tests too, except for WebAssembly and Plan 9
	GOOS=darwin go vet $(MODULES)
	GOOS=windows go vet $(MODULES)
	GOARCH=386 go vet $(MODULES)
	GOOS=js GOARCH=wasm go build $(LIBRARY)
	GOOS=plan9 GOARCH=amd64 go build $(LIBRARY)

.PHONY: mutants
mutants: ## Plant a hundred faults, one at a time, and list those that no test finds; about an hour (ONLY=regexp for some; see docs/mutants.md)
	cd tools && GOWORK=off go build -o ../bin/mutants ./mutants
	bin/mutants -only "$(ONLY)"

.PHONY: apidiff
apidiff: ## The changes of the exported API since a commit, usually the last release: make apidiff BASE=v0.1.0
	@scripts/apidiff "$(BASE)"

.PHONY: ab
ab: ## This tree beside another commit, figure by figure: make ab BASE=commit (some two hours; RUN="relay -case 1x200" for one)
	@scripts/ab "$(BASE)" $(RUN)

.PHONY: bench
bench: ## Ours and the rivals, about fifteen minutes, to bench/results (see docs/benchmarks.md)
	scripts/bench

.PHONY: bench-go
bench-go: ## The benchmarks of each package, as `go test` runs them
	go test -run='^$$' -bench=. -benchmem -benchtime=0.3s $(MODULES)

.PHONY: build
build: ## Build bin/millrace, which needs no C library, whether or not there is a C compiler
	CGO_ENABLED=0 go build -trimpath -o bin/millrace ./server/cmd/millrace

.PHONY: dist
dist: ## What a release has, in dist/: static binaries for Linux, their bills of materials, checksums
	scripts/dist

.PHONY: demo
demo: ## Serve the built-in sample stream on http://127.0.0.1:8080/
	go run ./server/cmd/millrace serve --demo

.PHONY: cluster-demo
cluster-demo: ## Three nodes, Redis and a balancer on this machine, with the sample stream: http://127.0.0.1:8090/
	scripts/cluster-demo
