# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# `make help` lists what there is. Versions are pinned where they are used, each once: go.mod (libraries), hack/tools (programs
# of the build), hack/cluster (programs of the local clusters), hack/zlib-ng, hack/isa-l and hack/zstd (the compression libraries).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
SUBMAKE = $(MAKE) --no-print-directory
.DELETE_ON_ERROR:

# Where images are pushed. Default: the registry of the local clusters.
REGISTRY ?=
# Tag of the images. Default: the Git tag of a clean tree, or dev- and a hash of the source.
VERSION ?=
PLATFORMS ?= linux/amd64,linux/s390x
# The demo builds for the clusters of this machine alone, unless it is told or runs on others.
DEMO_PLATFORMS = $(if $(filter command% environment%,$(origin PLATFORMS))$(EAST_KUBECONFIG),$(PLATFORMS),linux/$(HOSTARCH))
# For uninstall and undeploy: true to succeed where there is nothing to delete.
ignore-not-found ?= false
KUBECTL ?= $(firstword $(wildcard $(CURDIR)/.cluster/bin/kubectl) kubectl)
# How long each fuzz target runs.
FUZZTIME ?= 30s

# The local clusters; two kubeconfigs of other clusters take their place.
CLUSTER_ENV := .cluster/env
export EAST_KUBECONFIG WEST_KUBECONFIG

# So that trees of one machine, such as clones and the copy that verify-generated makes, share what was compiled. `go test` need not vet what
# `make lint` does: for every build with other flags it would type-check all dependencies once more.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -vet=off)

HOSTARCH := $(shell go env GOHOSTARCH 2>/dev/null)
ENSURE := hack/ensure-tools.sh
# The environment in which the engines in C are found. What cannot be had is left out of LIGHTERAGE_TAGS.
ENGINES = env=$$(hack/engines/env.sh $(HOSTARCH)); eval "$$env"
# For tests, which must not pass because something was left out.
ALL_ENGINES = env=$$(hack/engines/env.sh --all $(HOSTARCH)); eval "$$env"

# Programs of the build run from their modules; Go's build cache keeps them.
TOOL := go tool -modfile=hack/tools/go.mod
CONTROLLER_GEN := $(TOOL) controller-gen
KUSTOMIZE := $(TOOL) kustomize
BUF := go tool -modfile=hack/tools/buf/go.mod buf
HELM := env CGO_ENABLED=0 go tool -modfile=hack/tools/helm/go.mod helm
GOLANGCI_LINT := go tool -modfile=$(CURDIR)/hack/tools/lint/go.mod golangci-lint
# Without cgo it reads what the operator's programs and many tests are compiled from. The three packages with an engine in C have a run of
# their own, and without -trimpath, with which the cache holds what cgo makes once for all trees, with the paths of the tree that was first.
RUN_LINT = lint=$$(go tool -modfile=$(CURDIR)/hack/tools/lint/go.mod -n golangci-lint)
LINT_TAGS := envtest,e2e,faults,lifecycle,security,objectstores,prometheus,netns,gitops,browser,csi,cosign
export HELM_BIN := $(HELM)

# Without cgo they share what the operator's and Kubernetes' programs are compiled from.
CLUSTERS := CGO_ENABLED=0 go run -C hack/cluster .
IMAGES := CGO_ENABLED=0 go run -C hack/images .

# One program has all benchmarks. BENCH=quick is a look that is no result.
BENCHMARK = go run -C hack/bench -tags "$${LIGHTERAGE_TAGS:-}" .
EXTENT = -extent $(or $(BENCH),full)

# Programs that need libraries which the operator does not, as modules of their own.
MODULES := hack/bench hack/cluster hack/images test/console test/gitops

LDFLAGS = $(if $(VERSION),-ldflags "-X github.com/lighterage/lighterage/agent/wire/v1.Version=$(VERSION)")

# What `make generate` writes.
GENERATED := api/v1alpha1/zz_generated.deepcopy.go agent/wire api/messages/v1 config/crd/bases config/rbac config/prometheus/dashboards \
	charts/lighterage/files docs/reference

##@ General

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "; printf "Usage: make TARGET [VARIABLE=value]\n"} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-22s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: clean
clean: ## Remove what was built into the tree
	rm -rf bin dist

##@ Code

.PHONY: generate
generate: generate-api generate-proto generate-dashboards generate-chart generate-docs ## Write everything that is generated: deep copies, CRDs, roles, protobuf, dashboards, chart, reference

.PHONY: generate-api
generate-api: tools-go
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=false paths=./api/... output:crd:dir=config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=lighterage-manager,fileName=manager_role.yaml $(addprefix paths=,$(MANAGER_PACKAGES)) output:rbac:dir=config/rbac
	$(CONTROLLER_GEN) rbac:roleName=lighterage-gateway,fileName=gateway_role.yaml $(addprefix paths=,$(GATEWAY_PACKAGES)) output:rbac:dir=config/rbac

.PHONY: generate-proto
generate-proto: tools-go
	$(BUF) lint
	$(BUF) generate

.PHONY: generate-chart
generate-chart: generate-api generate-dashboards
	rm -rf charts/lighterage/files
	mkdir -p charts/lighterage/files/crds charts/lighterage/files/rbac charts/lighterage/files/pointintime charts/lighterage/files/claimtemplates charts/lighterage/files/populator charts/lighterage/files/hooks charts/lighterage/files/pulls charts/lighterage/files/admission charts/lighterage/files/prometheus/dashboards
	cp config/crd/bases/*.yaml charts/lighterage/files/crds/
	cp config/rbac/*_role.yaml charts/lighterage/files/rbac/
	cp config/pointintime/*_role.yaml charts/lighterage/files/pointintime/
	cp config/claimtemplates/*_role.yaml charts/lighterage/files/claimtemplates/
	cp config/populator/*_role.yaml charts/lighterage/files/populator/
	cp config/hooks/*_role.yaml charts/lighterage/files/hooks/
	cp config/pulls/*_role.yaml charts/lighterage/files/pulls/
	cp $(filter-out %/kustomization.yaml,$(wildcard config/admission/*.yaml)) charts/lighterage/files/admission/
	cp config/prometheus/rules.yaml charts/lighterage/files/prometheus/
	cp config/prometheus/dashboards/*.json charts/lighterage/files/prometheus/dashboards/

.PHONY: generate-dashboards
generate-dashboards: tools-go
	CGO_ENABLED=0 go run ./hack/dashboards config/prometheus/dashboards

.PHONY: generate-docs
generate-docs: tools-go
	CGO_ENABLED=0 go run ./hack/docs/reference

.PHONY: verify-generated
verify-generated: ## Check that what is generated is up to date
	hack/verify-generated.sh $(GENERATED)

.PHONY: fmt
fmt: tools-go ## Format Go code, protobuf and imports
	$(GOLANGCI_LINT) fmt
	$(BUF) format -w

.PHONY: lint
lint: tools-go ## Run the linters of Go, protobuf, API and chart
	$(RUN_LINT); for m in . $(MODULES); do (cd $$m && CGO_ENABLED=0 $$lint run --build-tags $(LINT_TAGS) ./...); done
	$(ENGINES); $(RUN_LINT); export GOFLAGS="$(filter-out -trimpath,$(GOFLAGS))"; \
		$$lint run --build-tags "$$LIGHTERAGE_TAGS" ./agent/codec/zlibng ./agent/codec/isal ./agent/codec/libzstd
	$(BUF) lint
	CGO_ENABLED=0 go test ./test/apilint ./test/arch
	$(HELM) lint --strict --quiet charts/lighterage --set image.registry=registry.example

.PHONY: tidy-check
tidy-check: tools-go ## Check that every go.mod lists what its code needs and no more
	for m in . $(MODULES) hack/tools hack/tools/*/; do (cd $$m && go mod tidy -diff); done

.PHONY: docs
docs: ## Build the documentation site into dist/site; needs Python 3
	hack/docs/build.sh

.PHONY: build
build: tools-go ## Build manager, gateway, agent, kubectl plugin and lighterage-cargo for this machine into bin/
	mkdir -p bin
	CGO_ENABLED=0 go build $(LDFLAGS) -o bin/ ./controllers/cmd/manager ./controllers/cmd/gateway ./controllers/cmd/kubectl-lighterage \
		./agent/cmd/lighterage-cargo
	$(ENGINES); go build -tags "$$LIGHTERAGE_TAGS" $(LDFLAGS) -o bin/ ./agent/cmd/agent

.PHONY: cross
cross: tools-go ## Build for all architectures without C
	for arch in amd64 arm64 s390x; do echo "go build, linux/$$arch"; GOOS=linux GOARCH=$$arch CGO_ENABLED=0 go build ./agent/... ./api/... ./controllers/...; done

.PHONY: engines
engines: tools-go ## Build the compression libraries in C for amd64, arm64 and s390x, once
	for arch in amd64 arm64 s390x; do hack/engines/env.sh --all $$arch; done

##@ Tests

.PHONY: test
test: ## Everything that must hold: lint, generated files, all tests, end to end on fresh clusters that it takes down
	hack/stages.sh lint verify-generated test-unit test-queue-checker test-asan test-s390x-formats test-dfltcc test-decisions test-envtest test-objectstore test-e2e-fresh

.PHONY: test-e2e-fresh
test-e2e-fresh:
	trap '$(SUBMAKE) clusters-down' EXIT; $(SUBMAKE) clusters-down; $(SUBMAKE) test-e2e

# Code without goroutines, on megabytes or in long simulations, and tests of what other programs write: the race detector makes them ten
# times slower and has nothing to find but in those that share an engine.
SERIAL := /(agent/(codec|estimate|policy)|controllers/(ledger|plan|receipt|tariff)|hack/bench/policy|test/(apilint|arch|chart|corpus))(/|$$)

# Tests of agents that move tens of megabytes, and have the race detector in test-race alone, where some still skip.
LARGE := /agent/(bucket|cargo)$$

# The packages, and the tests of packages, that come to Kubernetes' client. With the race detector its libraries would be compiled once more,
# which takes longer than the tests: test-race does it. Modules of what only tests and builds run are without it for the same reason.
CLIENTS = go list -test -f '{{.ImportPath}} {{join .Deps " "}} ' ./... | \
	sed -nE '/^[^ ]+ \[/d; s!^([^ ]+)\.test !\1 !; s!^([^ ]+) .*k8s\.io/client-go/kubernetes/scheme .*!\1!p' | sort -u

# Of a list of tests and what they are made of, the packages that come to an engine in C: the others are the same without.
USES_C := s!^([^ ]+)\.test .*/agent/codec/(zlibng|isal|libzstd) .*!\1!p

# Packages and tests at once beside each other. The slowest wait for elections and time-outs most of the time.
AT_ONCE := -p 4 -parallel 4

# How long a program with the race detector waits at its end for races, in place of a second: goroutines of tests have ended by then.
export GORACE := atexit_sleep_ms=50

.PHONY: test-unit
test-unit: tools-go ## Unit tests, those of the agents with the race detector, and what uses engines in C once more without C
	$(ALL_ENGINES); clients=$$($(CLIENTS)); \
		go test -race $(AT_ONCE) -timeout 40m -tags "$$LIGHTERAGE_TAGS" $$(go list ./... | grep -vxF "$$clients" | grep -vE '$(SERIAL)|$(LARGE)')
	CGO_ENABLED=0 go test $(AT_ONCE) $$($(CLIENTS)) $$(go list ./controllers/... ./test/... | grep -E '$(SERIAL)')
	for m in $(MODULES); do CGO_ENABLED=0 go test -C $$m ./...; done
	$(ALL_ENGINES); go test -tags "$$LIGHTERAGE_TAGS" $$(go list ./agent/... | grep -E '$(SERIAL)|$(LARGE)'); \
		go test -race -short -run /Concurrency -tags "$$LIGHTERAGE_TAGS" ./agent/codec/...
	$(ALL_ENGINES); packages=$$(go list -test -tags "$$LIGHTERAGE_TAGS" -f '{{.ImportPath}} {{join .Deps " "}} ' ./agent/... | sed -nE '$(USES_C)' | \
		grep -vE '$(LARGE)'); CGO_ENABLED=0 go test $(AT_ONCE) -short $${packages:?no package uses an engine in C}

# Tests as a static program for s390x under QEMU, with tags beside those of the engines. LONG=1 is for the ones that take minutes.
S390X_TEST = go test $(if $(LONG),-timeout 60m,-short -timeout 20m) -ldflags '-linkmode external -extldflags -static' -exec qemu-s390x-static
S390X_FORMATS := ./agent/codec/... ./agent/frame/... ./agent/hardware/... ./agent/journal/... ./agent/policy/... \
	./agent/transfer/protocol/... ./agent/cargo/... ./test/vectors/...

.PHONY: test-s390x-formats
test-s390x-formats: tools-go ## Tests of the wire and storage formats as s390x (big-endian) under QEMU
	$(ENSURE) s390x qemu
	env=$$(hack/engines/env.sh --all s390x); eval "$$env"; $(S390X_TEST) -tags "$$LIGHTERAGE_TAGS,netgo,osusergo" $(S390X_FORMATS)

.PHONY: test-s390x
test-s390x: tools-go ## All tests of the agent as s390x under QEMU, the model of DFLTCC in small steps, and streams that amd64 and s390x exchange
	$(ENSURE) s390x qemu
	env=$$(hack/engines/env.sh --all s390x); eval "$$env"; $(S390X_TEST) -tags "$$LIGHTERAGE_TAGS,netgo,osusergo" ./agent/... ./test/vectors/...
	env=$$(test/dfltcc/env.sh); eval "$$env"; DFLTCC_MODEL_STEP=1000 $(S390X_TEST) -count=1 -run Hardware -tags "$$LIGHTERAGE_TAGS" ./agent/codec/zlibng
	test/vectors/exchange.sh

.PHONY: test-dfltcc
test-dfltcc: tools-go ## Tests of the hardware path on a software model of DFLTCC, as s390x under QEMU
	env=$$(test/dfltcc/env.sh); eval "$$env"; $(S390X_TEST) -tags "$$LIGHTERAGE_TAGS" ./test/dfltcc ./agent/codec/zlibng ./agent/hardware

.PHONY: test-asan
test-asan: tools-go ## Tests of the engines in C, with the corpora of their fuzz targets, under AddressSanitizer: the bindings' own C, zlib-ng and zstd, not ISA-L
	export LIGHTERAGE_ZLIBNG_CFLAGS='-fsanitize=address -g' LIGHTERAGE_ZSTD_CFLAGS='-fsanitize=address -g'; \
		$(ALL_ENGINES); go test -asan -short -tags "$$LIGHTERAGE_TAGS" ./agent/codec/zlibng ./agent/codec/isal ./agent/codec/libzstd

# The packages that have tests with the tag envtest. The others ran as unit tests.
ENVTESTS = grep -rlE '^//go:build .*\benvtest\b' --include='*_test.go' controllers test | xargs -n1 dirname | sort -u | sed 's!^!./!'

.PHONY: test-envtest
test-envtest: tools-go ## Tests against a bare API server
	assets=$$($(CLUSTERS) assets); \
		packages=$$($(ENVTESTS)); export KUBEBUILDER_ASSETS=$$assets CGO_ENABLED=0; go test $(AT_ONCE) -timeout 20m -tags envtest $$packages; \
		go test -C hack/bench -timeout 20m -tags envtest ./scale/bed

.PHONY: test-race
test-race: tools-go ## The tests that test-unit and test-envtest run without the race detector with it: operator, gateway, console, benchmarks, large files
	$(ALL_ENGINES); go test -race $(AT_ONCE) -timeout 40m -tags "$$LIGHTERAGE_TAGS" $$($(CLIENTS)) $$(go list ./agent/... | grep -E '$(LARGE)')
	assets=$$($(CLUSTERS) assets); packages=$$($(ENVTESTS)); export KUBEBUILDER_ASSETS=$$assets; \
		go test -race $(AT_ONCE) -timeout 40m -tags envtest $$packages
	$(ALL_ENGINES); go test -C hack/bench -race -tags "$$LIGHTERAGE_TAGS" $$(go list -C hack/bench ./... | grep -vE '$(SERIAL)')

.PHONY: test-decisions
test-decisions: tools-go ## An HTTPEndpoint's agent and a channel follow a network that tc makes narrow and wide again, each in a network namespace of its own
	$(ENSURE) network
	unshare --map-root-user --net env CGO_ENABLED=0 go test -tags netns -v -count=1 -run TestFollowsTheKernel ./agent/httpproxy
	unshare --map-root-user --net env CGO_ENABLED=0 go test -tags netns -v -count=1 -run TestFollowsTheKernel ./agent/queue/channel

.PHONY: test-dashboards
test-dashboards: tools-go ## Run every panel's query and every rule on a Prometheus that scrapes real managers and gateways, and the alerts' tests
	$(ENSURE) prometheus
	assets=$$($(CLUSTERS) assets); export KUBEBUILDER_ASSETS=$$assets; \
		go test -count=1 -timeout 10m -tags prometheus ./test/dashboards; \
		go test -C hack/bench -v -count=1 -timeout 20m -tags prometheus ./scale/dashboards

.PHONY: test-gitops
test-gitops: tools-go ## Objects from Git with Flux, which is built once, on a bare API server: health, drift and pruning
	$(ENSURE) git
	assets=$$($(CLUSTERS) assets); flux=$$(hack/flux.sh); eval "$$flux"; export KUBEBUILDER_ASSETS=$$assets; \
		go test -C test/gitops -v -count=1 -timeout 20m -tags gitops -skip '^TestClusters$$' ./flux

.PHONY: test-gitops-clusters
test-gitops-clusters: tools-go ## Operator and objects of every kind from Git with Flux: health, drift, pruning; on fresh clusters that it takes down
	$(ENSURE) git
	flux=$$(hack/flux.sh); eval "$$flux"; trap '$(SUBMAKE) clusters-down' EXIT; $(SUBMAKE) clusters-down; $(SUBMAKE) clusters; . ./$(CLUSTER_ENV); \
		version=$$($(SUBMAKE) version); $(SUBMAKE) images VERSION=$$version PLATFORMS=linux/$(HOSTARCH); \
		GITOPS_REGISTRY=$$REGISTRY GITOPS_VERSION=$$version \
		go test -C test/gitops -v -count=1 -timeout 40m -tags gitops -run '^TestClusters$$' ./flux

.PHONY: test-console
test-console: tools-go ## The console in headless Chromium against two bare API servers: accessibility, light and dark, phones, guards; SCREENSHOTS=DIR writes pictures
	$(ENSURE) browser
	assets=$$($(CLUSTERS) assets); axe=$$(hack/axe.sh); eval "$$axe"; export KUBEBUILDER_ASSETS=$$assets; \
		$(if $(SCREENSHOTS),export LIGHTERAGE_SCREENSHOTS='$(abspath $(SCREENSHOTS))';) \
		go test -C test/console -v -count=1 -timeout 10m -tags browser ./...

.PHONY: test-bridge
test-bridge: ## What people touch, with the programs of others: the console in a browser, Flux, a release
	hack/stages.sh test-console test-gitops test-gitops-clusters test-release

.PHONY: test-objectstore
test-objectstore: tools-go ## One round trip of a claim through versitygw over TLS, which is built once
	env=$$(hack/objectstores.sh versitygw); eval "$$env"; \
		CGO_ENABLED=0 go test -v -count=1 -timeout 5m -tags objectstores -run '^TestServers$$/^versitygw$$/^RoundTrip$$' ./agent/cmd/agent

.PHONY: test-objectstores
test-objectstores: tools-go ## Tests of object stores against versitygw and moto over TLS, with every fault and kill; both are installed once
	env=$$(hack/objectstores.sh versitygw moto); eval "$$env"; \
		go test -v -count=1 -timeout 15m -tags objectstores -run '^Test(Servers|ServersEndWithTest|ServerFaults|Killed|Full|FoldedServer)$$' \
		./agent/objectstore/... ./agent/bucket ./agent/cmd/agent ./agent/queue/archive ./agent/handoff

.PHONY: test-reach
test-reach: tools-go ## Several receivers and their faults, paths, tunnels, impostors, proxies, and control connections that are cut for ten minutes
	$(ALL_ENGINES); go test -count=1 -timeout 15m -tags "$$LIGHTERAGE_TAGS" -run 'FanOut|Spool|SendToSeveral|OneOfSeveral|SeveralReceivers' \
		./agent/transfer/... ./agent/cmd/agent
	go test -count=1 -timeout 10m ./agent/wire/datapath ./agent/wire/tunnel ./controllers/gateway/reverse
	go test -count=1 -timeout 10m -run 'Destination|Several|Pull|DataPath|PathCost' ./controllers/plan
	CONTROL_CUTS=10m go test -v -count=1 -timeout 20m -run 'Reverse|ControlConnection|Impostor|Replicas|Proxy|Tunnel|MadeUpPeers|NetworkPolicies|Revocation|Expiry|Trust' \
		./controllers/gateway

.PHONY: test-csi
test-csi: tools-go ## Tests of the CSI driver of the local clusters on a small btrfs, with csi-test's sanity suite; as root
	$(ENSURE) btrfs
	go test -C hack/cluster -v -count=1 -timeout 10m -tags csi ./internal/csi

.PHONY: test-ledger-faults
test-ledger-faults: tools-go ## Kill the manager at every step of booking Statements, with two managers, stale caches and wrong clocks; sums must be exact
	go test -count=1 -timeout 10m -run 'TestHistories' -v ./controllers/ledger
	assets=$$($(CLUSTERS) assets); \
		KUBEBUILDER_ASSETS=$$assets go test -count=1 -timeout 10m -tags envtest -run 'TestKills' -v ./controllers/statement

# Tests with the tag security are timed, so nothing else may run beside them. The others run in test-unit and test-envtest as well.
.PHONY: test-security
test-security: tools-go ## Tests of the threat model: unauthenticated clients, hostile peers, tenants and agents; nothing else may run on the machine
	assets=$$($(CLUSTERS) assets); proofs=$$(hack/security-tests.sh); export KUBEBUILDER_ASSETS=$$assets; \
		go test -v -count=1 -timeout 20m -p 1 -tags security,envtest ./test/security; \
		go test -count=1 -timeout 20m -tags envtest $$proofs

OF_CARGO := ./agent/cargo/... ./agent/cmd/lighterage-cargo/... ./agent/scrub ./agent/agefile

.PHONY: test-cargo
test-cargo: tools-go ## Files that rest compressed: forms, records, stores, bad input, kills, and the programs of others that read them
	$(ENSURE) readers
	$(ALL_ENGINES); CARGO_READERS=all go test -count=1 -timeout 15m -tags "$$LIGHTERAGE_TAGS" $(OF_CARGO)
	CARGO_READERS=all CGO_ENABLED=0 go test -count=1 -timeout 15m $(OF_CARGO)
	$(ALL_ENGINES); CARGO_READERS=all go test -count=1 -timeout 15m -tags "$$LIGHTERAGE_TAGS" \
		-run '^(TestArchives|TestEncryptedByOtherTools|TestResting)$$' ./agent/bucket
	$(ALL_ENGINES); LIGHTERAGE_TEST_KILLS=all go test -v -count=1 -timeout 30m -tags "$$LIGHTERAGE_TAGS" -run '^TestKilled(InClaims)?$$' \
		./agent/cmd/agent ./agent/cmd/lighterage-cargo/command
	env=$$(test/dfltcc/env.sh); eval "$$env"; $(S390X_TEST) -run '^(TestFile|TestFileOfHardware|TestTools)$$' -tags "$$LIGHTERAGE_TAGS" ./agent/cargo

# Tests on the clusters that test-sources has, and test-e2e not.
OF_SOURCES := TestCopyTrigger|TestGroupSnapshot|TestHooksAroundASnapshot|TestKeepsHistory|TestKeepsHistoryAtAPeer
OF_SOURCES := $(OF_SOURCES)|TestPopulatedClaimIsDeleted|TestBlockImage|TestEncryptedArchiveInAClaim|TestStoreAmongSeveral|TestWindow

.PHONY: test-sources
test-sources: tools-go ## Kill managers at every write of a run, with hooks and without, check the CSI driver (as root), and take a snapshot of a volume that a program writes to without end, on the local clusters; brings them up and leaves them
	assets=$$($(CLUSTERS) assets); export KUBEBUILDER_ASSETS=$$assets; \
		STAGING_KILLS=all go test -v -count=1 -timeout 20m -tags envtest ./controllers/staging
	$(SUBMAKE) test-csi
	$(SUBMAKE) clusters
	version=$$($(SUBMAKE) version); $(SUBMAKE) images demo-install VERSION=$$version
	go test -v -count=1 -timeout 30m -tags e2e -run '^($(OF_SOURCES)|TestSnapshotOfALiveVolume|TestPopulatedClaim)$$' ./test/e2e

.PHONY: test-e2e
test-e2e: ## End-to-end tests; brings up the clusters and installs the operator first, and leaves them
	$(SUBMAKE) clusters
	version=$$($(SUBMAKE) version); $(SUBMAKE) images demo-install VERSION=$$version PLATFORMS=linux/$(HOSTARCH)
	CGO_ENABLED=0 go test -v -count=1 -timeout 30m -tags e2e -skip '^(TestWatchNamespaces|$(OF_SOURCES))$$' ./test/e2e/...

.PHONY: test-watched
test-watched: ## End to end with an operator in cluster west that watches some namespaces only; brings up and installs like test-e2e
	$(SUBMAKE) clusters
	version=$$($(SUBMAKE) version); $(SUBMAKE) images demo-install VERSION=$$version PLATFORMS=linux/$(HOSTARCH)
	go test -v -count=1 -timeout 30m -tags e2e -run '^TestWatchNamespaces$$' ./test/e2e

.PHONY: test-faults
test-faults: faults-clusters ## Inject faults into running Transfers between the local clusters: processes, networks, disks, certificates, clocks; as root
	go test -v -count=1 -timeout 90m -tags faults ./test/faults

.PHONY: test-faults-long
test-faults-long: faults-clusters ## The faults of test-faults that last for minutes
	FAULTS_LONG=1 go test -v -count=1 -timeout 60m -tags faults -run ForMinutes ./test/faults

# Built twice, for this machine alone, signed with a key that is thrown away, pushed to the clusters' registry, and upgraded to from the previous
# state. cosign, which is built once, verifies one of small programs.
.PHONY: test-release
test-release: tools-go ## Make a release twice, compare, verify, push it, install it from the registry and upgrade the previous state to it; on fresh clusters that it takes down
	$(ENSURE) git openssl
	go test -C hack/images -count=1 -timeout 40m -tags cosign -run '^TestCosign$$' .
	work=$$(mktemp -d); trap 'rm -rf "$$work"; $(SUBMAKE) clusters-down' EXIT; $(SUBMAKE) clusters-down; $(SUBMAKE) clusters; . ./$(CLUSTER_ENV); \
		version=v0.0.0-test.$$(date +%s); openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$$work/key"; \
		for i in 1 2; do $(RELEASE) release -version "$$version" -registry "$$REGISTRY" -key "$$work/key" -platforms linux/$(HOSTARCH) -allow-dirty \
			-out "$$work/$$i"; done; diff -r "$$work/1" "$$work/2"; \
		$(SUBMAKE) release-push DIR="$$work/1" REGISTRY="$$REGISTRY" KEY="$$work/1/lighterage.pub"; \
		previous=$$(hack/previous/images.sh); eval "$$previous"; \
		RELEASE_REGISTRY=$$REGISTRY RELEASE_KEY=$$work/1/lighterage.pub LIFECYCLE_VERSION=$$version go test -v -count=1 -timeout 60m -tags e2e,lifecycle -run '^TestRelease' ./test/e2e

# They need no clusters and no root where users may make namespaces.
.PHONY: test-queue-checker
test-queue-checker: tools-go ## Inject faults into a queue and a channel for a minute, with the race detector, and check what clients saw
	$(ENSURE) faults
	$(ALL_ENGINES); go test -race -v -count=1 -timeout 20m -tags "$$LIGHTERAGE_TAGS,faults" -parallel 2 -run '^TestMinute$$' ./test/queuefaults

.PHONY: test-queue-faults
test-queue-faults: tools-go ## Inject faults into members of queues, their networks and volumes, and into channels, and check what clients saw; about 15 minutes
	$(ENSURE) faults
	$(ENGINES); go test -v -count=1 -timeout 40m -tags "$$LIGHTERAGE_TAGS,faults" ./test/queuefaults

.PHONY: test-queue-faults-long
test-queue-faults-long: tools-go ## test-queue-faults for an hour, with clocks that differ and channels between queues of three
	$(ENSURE) faults
	$(ENGINES); QUEUE_FAULTS_DURATION=11m go test -v -count=1 -timeout 60m -tags "$$LIGHTERAGE_TAGS,faults" -run '^TestThreeMembers$$' ./test/queuefaults
	$(ENGINES); QUEUE_FAULTS_DURATION=5m go test -v -count=1 -timeout 120m -tags "$$LIGHTERAGE_TAGS,faults" -skip '^TestThreeMembers$$' ./test/queuefaults

# The previous state's images are built beside those of this tree; it is installed first.
.PHONY: test-lifecycle
test-lifecycle: tools-go ## Upgrade, roll back, uninstall, restore and drain installations in the middle of traffic, on fresh clusters that it takes down
	trap '$(SUBMAKE) clusters-down' EXIT; $(SUBMAKE) clusters-down; $(SUBMAKE) clusters; version=$$($(SUBMAKE) version); \
		$(SUBMAKE) images VERSION=$$version PLATFORMS=linux/$(HOSTARCH); previous=$$(hack/previous/images.sh); \
		eval "$$previous"; $(SUBMAKE) demo-install VERSION=$$version; \
		LIFECYCLE_VERSION=$$version go test -v -count=1 -timeout 120m -tags e2e,lifecycle -run '^TestLifecycle' ./test/e2e

# The faults are injected on this machine.
.PHONY: faults-clusters
faults-clusters:
	[ -z "$(EAST_KUBECONFIG)$(WEST_KUBECONFIG)" ] || { echo "The faults are for the local clusters: unset EAST_KUBECONFIG and WEST_KUBECONFIG" >&2; exit 1; }
	$(SUBMAKE) clusters
	version=$$($(SUBMAKE) version); $(SUBMAKE) images demo-install VERSION=$$version PLATFORMS=linux/$(HOSTARCH)

# It leaves no clusters behind, because the kernel runs programs for s390x by emulation as long as they are up.
.PHONY: test-e2e-s390x
test-e2e-s390x: tools-go ## End to end with a node whose agents are s390x programs with the model of DFLTCC; takes the clusters down
	$(ENSURE) s390x qemu
	trap '$(SUBMAKE) clusters-down' EXIT; $(SUBMAKE) clusters; version=$$($(SUBMAKE) version); . ./$(CLUSTER_ENV); \
		$(SUBMAKE) images VERSION=$$version PLATFORMS=linux/$(HOSTARCH); \
		$(IMAGES) -registry "$$REGISTRY" -version "$$version" -dfltcc-model; \
		ACCELERATED_NODE=$$($(CLUSTERS) s390x "$$REGISTRY/lighterage/agent-dfltcc-model:$$version" "$$REGISTRY/lighterage/agent:$$version"); \
		export ACCELERATED_NODE; $(SUBMAKE) demo-install VERSION=$$version; \
		go test -v -count=1 -timeout 25m -tags e2e -run 'TestAccelerator(Queue)?$$' ./test/e2e; \
		export ACCELERATOR_SLOTS=1; $(SUBMAKE) demo-install VERSION=$$version; \
		go test -v -count=1 -timeout 35m -tags e2e -run TestAcceleratorSlots ./test/e2e

.PHONY: fuzz
fuzz: tools-go ## Run every fuzz target for FUZZTIME (30s)
	$(ENGINES); hack/fuzz.sh $(FUZZTIME)

##@ One cluster: the current one of your kubeconfig

.PHONY: install
install: tools-go ## Install the CRDs
	$(KUSTOMIZE) build config/crd | $(KUBECTL) apply --server-side -f -

.PHONY: uninstall
uninstall: tools-go ## Delete the CRDs, and with them every object of their kinds
	$(KUSTOMIZE) build config/crd | $(KUBECTL) delete --ignore-not-found=$(ignore-not-found) -f -

.PHONY: deploy
deploy: manifests ## Install the operator with the images of REGISTRY and VERSION; `helm install` is for production
	$(KUBECTL) apply --server-side -f dist/lighterage.yaml

# The manager has to be there while objects with finalizers are deleted.
.PHONY: undeploy
undeploy: uninstall ## Delete the CRDs with every object of their kinds, and then the operator
	$(KUSTOMIZE) build config/default | $(KUBECTL) delete --ignore-not-found -f -

.PHONY: run
run: tools-go ## Run the manager here, with the agent image of REGISTRY and VERSION; further flags in ARGS
	@[ -n "$(REGISTRY)" ] && [ -n "$(VERSION)" ] || { echo "write: make run REGISTRY=registry.example.com/me VERSION=v0.1.0" >&2; exit 1; }
	go run ./controllers/cmd/manager --namespace=lighterage-system --agent-image="$(REGISTRY)/lighterage/agent:$(VERSION)" \
		--metrics-bind-address=0 $(ARGS)

.PHONY: docker-build
docker-build: images ## The same as images, which need no container engine and are pushed at once

##@ Clusters for development

.PHONY: clusters
clusters: tools-go ## Bring up the clusters east and west; kubeconfigs in .cluster/, programs built once
	$(ENSURE) c
	$(CLUSTERS) up

.PHONY: clusters-down
clusters-down: tools-go ## Take the clusters down and leave nothing behind
	$(CLUSTERS) down

.PHONY: images
images: tools-go ## Build the images and push them to REGISTRY (default: that of the clusters)
	@for p in $(subst $(comma), ,$(PLATFORMS)); do $(ENSURE) "$${p#linux/}"; done
	@registry="$(REGISTRY)"; \
		if [ -z "$$registry" ] && [ -e $(CLUSTER_ENV) ]; then . ./$(CLUSTER_ENV); registry=$$REGISTRY; fi; \
		$(IMAGES) -registry "$$registry" -version "$(VERSION)" -platforms "$(PLATFORMS)"

.PHONY: manifests
manifests: tools-go ## Write dist/lighterage.yaml, what config/default installs, with the images of REGISTRY and VERSION
	@[ -n "$(REGISTRY)" ] && [ -n "$(VERSION)" ] || { echo "write: make manifests REGISTRY=registry.example.com/me VERSION=v0.1.0" >&2; exit 1; }
	@mkdir -p dist
	@root=$$PWD; kustomize=$$($(TOOL) -n kustomize); work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
		cp -r config "$$work/"; cd "$$work/config/default"; \
		for c in manager gateway agent; do "$$kustomize" edit set image "lighterage/$$c=$(REGISTRY)/lighterage/$$c:$(VERSION)"; done; \
		"$$kustomize" build . >"$$root/dist/lighterage.yaml"
	@echo "Wrote dist/lighterage.yaml; install it with: kubectl apply --server-side -f dist/lighterage.yaml"

##@ Releases

# hack/images has them; paths are relative to where make is run.
RELEASE = $(IMAGES)
KEY_FLAG = $(if $(KEY),-key "$(abspath $(KEY))")

.PHONY: release
release: tools-go ## Make the release VERSION, signed by KEY, in dist/VERSION; REGISTRY: where users will pull from; ALLOW_DIRTY=1: of a changed tree
	$(ENSURE) git
	$(RELEASE) release -version "$(VERSION)" -registry "$(REGISTRY)" $(KEY_FLAG) $(if $(DOWNLOADS),-downloads "$(DOWNLOADS)") \
		$(if $(filter 1 true yes,$(ALLOW_DIRTY)),-allow-dirty) $(if $(filter command% environment%,$(origin PLATFORMS)),-platforms "$(PLATFORMS)")

.PHONY: release-verify
release-verify: tools-go ## Verify a release with the public KEY: in DIR, or VERSION in REGISTRY
	@$(RELEASE) verify $(KEY_FLAG) $(if $(DIR),-dir "$(abspath $(DIR))",-registry "$(REGISTRY)" -version "$(VERSION)")

.PHONY: release-push
release-push: tools-go ## Verify the release in DIR with the public KEY, and push its images and chart to REGISTRY
	@$(RELEASE) push $(KEY_FLAG) -dir "$(if $(DIR),$(abspath $(DIR)))" -registry "$(REGISTRY)"

.PHONY: version
version: ## Print the tag that `make images` gives
	@$(IMAGES) -print-version -version "$(VERSION)"

.PHONY: demo-install
demo-install: ## Install the images' version by Helm in the clusters east and west and join them as peers
	VERSION="$$($(SUBMAKE) version)" hack/demo/install.sh

.PHONY: demo
demo: ## Move data between two clusters by a Transfer, prove that it arrived, archive it in an object store and restore it
	$(SUBMAKE) clusters $(if $(filter 1,$(LIVE_VOLUME)),,SNAPSHOTS=built)
	version=$$($(SUBMAKE) version); $(SUBMAKE) images VERSION=$$version PLATFORMS=$(DEMO_PLATFORMS); VERSION=$$version hack/demo/demo.sh

.PHONY: bench-transfer
bench-transfer: build ## Measure moving trees beside rsync, alone, through stunnel and over ssh, rclone over SFTP, and tar through igzip and TLS, over loopback
	$(ENSURE) movers
	env=$$(hack/objectstores.sh rclone); eval "$$env"; $(BENCHMARK) transfer $(EXTENT) $(if $(AGENT),-agent $(AGENT)) $(if $(BENCH_SIZE_MIB),-size $(BENCH_SIZE_MIB)) $(if $(BENCH_RUNS),-runs $(BENCH_RUNS)) \
		-only "$(BENCH_ONLY)" -match "$(BENCH_MATCH)" -cpu-usage "$(BENCH_CPU)"

.PHONY: bench-apply
bench-apply: tools-go ## Measure a Transfer of 1 MiB from kubectl apply to Complete beside the images of an earlier commit, BEFORE; on fresh clusters that it takes down
	hack/bench/apply.sh "$(BEFORE)"

.PHONY: bench-block
bench-block: build ## Measure a block volume beside a file of its size, over loopback; needs root, loop devices and 9 GiB in /dev/shm (BENCH=quick: a look, no result)
	$(BENCHMARK) block $(EXTENT)

.PHONY: bench-checkpoint
bench-checkpoint: build ## Measure what checkpoint intervals cost beside what a restart repeats; needs 5 GiB in /var/tmp (BENCH=quick: a look, no result)
	$(BENCHMARK) checkpoint $(EXTENT)

.PHONY: bench-ledger
bench-ledger: build ## Measure what Transfers cost the system beside what is booked for them; needs 9 GiB of memory and an idle machine (BENCH=quick: a look, no result)
	$(BENCHMARK) ledger $(EXTENT) $(if $(AGENT),-agent $(AGENT))

.PHONY: bench-fanout
bench-fanout: build ## Measure what more receivers of one source cost the sender; needs 6 GiB in /dev/shm (BENCH=quick: a look, no result)
	$(ENGINES); $(BENCHMARK) fanout $(EXTENT) $(if $(AGENT),-agent $(AGENT))

.PHONY: bench-memory
bench-memory: build ## Measure how much memory agents take for a file larger than their limit and for a million files; needs 12 GiB in BENCH_DIR (/var/tmp)
	$(BENCHMARK) memory $(if $(BENCH_DIR),-work "$(BENCH_DIR)")

.PHONY: bench-codec
bench-codec: tools-go ## Measure every engine beside igzip, pigz, zstd and loops in C (BENCH=quick: a look, no result)
	$(ENSURE) peers
	$(ENGINES); $(BENCHMARK) codec $(EXTENT)

.PHONY: bench-http
bench-http: build ## Measure the agent in mode http beside nginx, HAProxy and Caddy (BENCH=quick: a look, no result)
	$(ENSURE) proxies
	caddy=$$(go tool -modfile=hack/tools/caddy/go.mod -n caddy); $(ENGINES); $(BENCHMARK) http $(EXTENT) -caddy "$$caddy"

.PHONY: bench-http-long
bench-http-long: build ## Measure the memory of the agent in mode http for ten minutes under load, and with 10,000 idle connections
	$(ENSURE) proxies
	$(ENGINES); $(BENCHMARK) http-long

.PHONY: bench-queue
bench-queue: tools-go ## Measure a queue beside JetStream and RabbitMQ, on a slow disk too, a channel over a slow link, archives, and a stopped channel; needs root (BENCH=quick: a look, no result)
	$(ENSURE) disks brokers network || echo "bench-queue: what needs these is not measured" >&2
	$(ENGINES); $(BENCHMARK) queue $(EXTENT)

.PHONY: bench-object
bench-object: build ## Measure moving trees through versitygw beside rclone and restic, over loopback and 100 Mbit/s; needs root (BENCH=quick: a look, no result)
	$(ENSURE) network
	env=$$(hack/objectstores.sh versitygw rclone restic); eval "$$env"; \
		$(BENCHMARK) object $(EXTENT) $(if $(BENCH_SIZE_MIB),-size $(BENCH_SIZE_MIB)) $(if $(BENCH_RUNS),-runs $(BENCH_RUNS) -long-runs $(BENCH_RUNS)) \
		-only "$(BENCH_ONLY)"

.PHONY: bench-online
bench-online: build ## Measure what runs do to the latency of an HTTPEndpoint beside them, by window; needs root, control groups of version 1 and 9 GiB in /dev/shm (BENCH=quick: a look, no result)
	$(BENCHMARK) online $(EXTENT) $(if $(AGENT),-agent $(AGENT))

.PHONY: bench-policy
bench-policy: tools-go ## Measure what mode Auto loses against the best fixed choice, of Transfers, messages and bodies, over networks of its own; needs root (BENCH=quick: a look, no result; PART=messages: that part only, PART=10: that network)
	$(ENSURE) network
	$(ENGINES); $(BENCHMARK) policy $(EXTENT) $(if $(PART),-only $(PART) -merge)

.PHONY: bench-wan
bench-wan: build ## Measure moving trees over 200 Mbit/s with a round-trip time of 100 ms and losses, beside rsync, rclone and tar; needs root (BENCH=quick: a look, no result)
	$(ENSURE) wan
	env=$$(hack/objectstores.sh rclone); eval "$$env"; $(BENCHMARK) wan $(EXTENT) -only "$(BENCH_ONLY)"

.PHONY: bench-links
bench-links: build ## Measure moving a mixed tree over 100 Mbit/s and 1 Gbit/s beside rsync, rclone and tar; needs root (BENCH=quick: a look, no result)
	$(ENSURE) wan
	env=$$(hack/objectstores.sh rclone); eval "$$env"; $(BENCHMARK) links $(EXTENT) -only "$(BENCH_ONLY)"

.PHONY: bench-rest
bench-rest: build ## Measure records that rest compressed by the application, as cargo and both, in memory and on a slow disk; needs root, 5 GiB in /dev/shm and in /var/tmp (BENCH=quick: a look, no result)
	$(ENSURE) peers disks || echo "bench-rest: what needs these is not measured" >&2
	$(ENGINES); $(BENCHMARK) rest $(EXTENT)

.PHONY: bench-scale
bench-scale: tools-go ## Measure the manager and the gateway with up to 10,000 Transfers and a fake fleet of agents; needs root or user namespaces (BENCH=quick: a look, no result; SIZE=2000: so many alone; PROFILE=cpu.out: with profiles of the manager)
	$(BENCHMARK) scale $(EXTENT) $(if $(SIZE),-size $(SIZE)) $(if $(PROFILE),-profile $(PROFILE))

# What targets need from the machine.
.PHONY: tools-go
tools-go:
	@$(ENSURE) go

comma := ,

# The packages whose RBAC markers make up each role.
GATEWAY_PACKAGES = ./controllers/gateway/... ./controllers/cmd/gateway/...
MANAGER_PACKAGES = $(addsuffix /...,$(filter-out ./controllers/gateway ./controllers/cmd,$(wildcard ./controllers/*))) ./controllers/cmd/manager/...
