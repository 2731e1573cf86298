# `make test` is the whole check, on a fresh Debian machine with Go alone as well as on CI. `make help` lists the rest.

# Servers, sockets and ffmpeg are beyond what Go's test cache can see, so nothing is taken from it.
TESTFLAGS ?= -count=1 -timeout=5m
FUZZTIME  ?= 10s

# Packages at a time: twice as many as there are processors, because most tests wait for sockets and servers. On two
# processors that takes a third off.
PACKAGES ?= $(shell expr 2 '*' "$$(getconf _NPROCESSORS_ONLN)")

# Empty, with a word on stderr, where there is no C compiler. Evaluated when used, that is, after deps has run.
RACE = $(shell scripts/race)

.DEFAULT_GOAL := help
.NOTPARALLEL:

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: test
test: deps lint test-race test-invariants test-plain test-makes test-soak $(if $(filter true,$(CI)),fuzz) test-bench vet-others ## Check everything (fuzzing only on CI; see make fuzz)

.PHONY: deps
deps: ## Install what the tests run: redis-server, ffmpeg, nginx, chromium, a C compiler
	scripts/deps

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, with and without the invariants
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w would change:" $$unformatted >&2; exit 1; fi
	@for script in .ci/run scripts/*; do bash -n $$script || exit 1; done
	go vet ./...
	go vet -tags invariants ./...
	go tool staticcheck ./...
	go tool staticcheck -tags invariants ./...

.PHONY: test-race
test-race: ## The tests under the race detector
	go test $(RACE) -p $(PACKAGES) $(TESTFLAGS) ./...

.PHONY: test-invariants
test-invariants: ## The same with memory poisoned on release and leaks reported with stacks
	go test $(RACE) -tags invariants -p $(PACKAGES) $(TESTFLAGS) ./...

.PHONY: test-plain
test-plain: ## Without it, as users build: the allocation and escape tests, which the race detector would upset
	scripts/plain $(TESTFLAGS)

# Without that optimisation what is on the stack is what the code says; so a mistake of the compiler's is told from one of
# Buffer's. The q keeps the compiler from listing every place.
.PHONY: test-makes
test-makes: ## stackbuf's tests again, with no make of variable size on the stack
	go test -gcflags=all=-d=variablemakehash=qn $(TESTFLAGS) ./stackbuf

.PHONY: test-soak
test-soak: ## One minute of streams, files and blobs at once, with restarts; see docs/soak.md
	go run ./cmd/millrace soak --for 1m

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME (10s)
	scripts/fuzz $(FUZZTIME)

.PHONY: test-bench
test-bench: ## Test the benchmarks against rival libraries, a module of their own
	cd bench && go vet ./... && go test $(TESTFLAGS) -short ./...

.PHONY: vet-others
vet-others: ## Type-check what macOS, Windows and 32-bit machines build, tests included
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...
	GOARCH=386 go vet ./...

.PHONY: bench
bench: ## Ours and the rivals, about fourteen minutes: bench-report.html and bench-tables.md (see docs/benchmarks.md)
	scripts/bench

.PHONY: bench-go
bench-go: ## The benchmarks of each package, as `go test` runs them
	go test -run='^$$' -bench=. -benchmem -benchtime=0.3s ./...

.PHONY: build
build: ## Build bin/millrace, which needs no C library, whether or not there is a C compiler
	CGO_ENABLED=0 go build -trimpath -o bin/millrace ./cmd/millrace

.PHONY: demo
demo: ## Serve the built-in sample stream on http://127.0.0.1:8080/
	go run ./cmd/millrace serve --demo
