# Builds, checks and tests windsock. It takes Go and a C compiler; "make" alone says
# what there is to make.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
CERTS   ?= /etc/ssl/certs/ca-certificates.crt

# The same tags and flags wherever Go compiles, or SQLite is compiled again and again:
# it takes a minute. It takes one more for the race detector.
export CGO_ENABLED := 1
export GOFLAGS := $(GOFLAGS) -trimpath -tags=sqlite_omit_load_extension,osusergo,netgo

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
NFPM        := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
FUZZTIME    ?= 30s
SEEDS       ?= 200
SPAN        ?= 45s

.PHONY: help
help: ## say what there is to make
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: compiler
compiler:
	@command -v $(GO) >/dev/null || { echo "Go is missing: https://go.dev/doc/install"; exit 1; }
	@echo '#include <stdlib.h>' | $$($(GO) env CC) -fsyntax-only -x c - 2>/dev/null || { \
		echo "A C compiler is missing, for SQLite. On Debian: apt-get install gcc libc6-dev"; exit 1; }

.PHONY: build
build: compiler ## bin/windsock, a static binary
	$(GO) build -ldflags '-s -w -extldflags -static -X main.version=$(VERSION)' -o bin/windsock ./cmd/windsock

# Debian's versions begin with a digit, and what follows a "-" is another thing to them.
.PHONY: deb
deb: build ## bin/windsock.deb, with a unit for systemd
	VERSION=$$(echo '$(VERSION)' | sed '/^v\{0,1\}[0-9]*\./!s/^/0~git/; s/^v//; s/-/+/g') ARCH=$$($(GO) env GOARCH) \
		GOFLAGS= $(GO) run $(NFPM) package --config deploy/debian/nfpm.yaml --packager deb --target bin/windsock.deb

# SQLite needs a compiler that compiles for arm64. On Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross.
.PHONY: build-arm64
build-arm64: ## bin/windsock-arm64, the same for arm64
	GOOS=linux GOARCH=arm64 CC=aarch64-linux-gnu-gcc $(GO) build -ldflags '-s -w -extldflags -static -X main.version=$(VERSION)' -o bin/windsock-arm64 ./cmd/windsock

.PHONY: check
check: compiler ## format, vet, staticcheck, modules
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) mod tidy -diff
	$(GO) mod verify
	cd test/replicas && $(GO) vet . && $(GO) run $(STATICCHECK) . && $(GO) mod tidy -diff

.PHONY: test
test: compiler ## all Go tests, with the race detector
	$(GO) test -race -count=1 ./... # Go does not know that those below test/ depend on the program

.PHONY: simulate
simulate: compiler ## SEEDS=200 histories in virtual time, of all that can go wrong
	$(GO) test -count=1 -timeout 30m ./test/simulate -seeds $(SEEDS)

.PHONY: test-replicas
test-replicas: compiler ## three windsocks over one PostgreSQL, to which everything happens for SPAN=45s
	cd test/replicas && $(GO) test -count=1 -v -timeout 2h . -span $(SPAN) $(if $(SEED),-seed $(SEED))

.PHONY: demo
demo: build ## show the main job; DEMO_EXIT=1 ends when all was shown
	@bin/windsock demo

.PHONY: bench
bench: compiler ## benchmarks, then load from outside: posts, callbacks, probes
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(GO) run ./test/load

.PHONY: fuzz
fuzz: compiler ## every fuzz target, FUZZTIME=30s each
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: image
image: ## the image windsock, by docker
	docker build --build-arg VERSION=$(VERSION) -t windsock .

# What goes into the image, as it lies there. The Dockerfile calls this, too.
.PHONY: rootfs
rootfs: build
	install -D bin/windsock bin/rootfs/windsock
	install -D -m 644 $(CERTS) bin/rootfs/etc/ssl/certs/ca-certificates.crt
	install -d bin/rootfs/data

.PHONY: test-image
test-image: rootfs ## build the image and run it, by docker or without an engine
	test/image/run

.PHONY: test-prometheus
test-prometheus: build ## let promtool and a real Prometheus read the metrics
	test/prometheus/run

.PHONY: test-page
test-page: build ## click through the page in a real Chromium
	test/page/run

.PHONY: test-arm64
test-arm64: build-arm64 ## run that, by qemu where this is no arm64: service and agent
	$(GO) test -count=1 -v ./test/arm64

.PHONY: test-deb
test-deb: deb ## look through the Debian package and run what is in it
	test/deb/run

.PHONY: test-deploy
test-deploy: ## read the files for Compose and Kubernetes as those do; no engine, no cluster
	cd test/deploy && $(GO) vet . && $(GO) mod tidy -diff && $(GO) test -count=1 .

.PHONY: test-openstack
test-openstack: compiler ## start a real OpenStack and let windsock observe it; installs it, on a Debian 12, as root
	GO="$(GO)" test/openstack/run

.PHONY: test-docker
test-docker: compiler ## start a real Docker engine and let windsock observe it; installs it, on a Debian 12, as root
	GO="$(GO)" test/docker/run

.PHONY: test-libvirt
test-libvirt: compiler ## start a real libvirtd, with QEMU, and let windsock observe it; installs it, on a Debian 12, as root
	GO="$(GO)" test/libvirt/run
