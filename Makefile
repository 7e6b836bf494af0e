# `make` lists the main targets. A fresh machine needs Go 1.21 or newer, make and git.
SHELL := /bin/sh

HOSTARCH = $(shell go env GOHOSTARCH 2>/dev/null)
GOARCH ?= $(HOSTARCH)
# The programs for another architecture go beside this machine's own.
BIN ?= $(if $(filter $(HOSTARCH),$(GOARCH)),bin,bin/$(GOARCH))
CHARM ?= concourse-ci-machine_$(GOARCH).charm
# A folder for the packages of make packages.
PACKAGES ?= dist/packages
# A repository of them for apt. With SIGNING_KEY, a key of gpg, it is signed.
APT ?= dist/apt
# A release has packages of both architectures with xz, which takes minutes.
COMPRESSION ?= gzip
PACKAGE_ARCHS ?= $(HOSTARCH)
TAKEOVER_CHARM ?= concourse-ci-machine-takeover_$(GOARCH).charm
CHARM_TREE ?= bin/charm-$(GOARCH)
# A tag of the file VERSION, else that version to come and the commit.
VERSION ?= $(shell scripts/version.sh)
FUZZTIME ?= 10s
# JSON=file: write the tests' results there, as `go test -json` does.
JSON ?=

# A GOARCH for the charm must not reach `go run` and `go test`.
unexport GOARCH
export CGO_ENABLED := 0
# Programs have no folder of the builder in them, and tests share their compiled packages.
export GOFLAGS += -trimpath
# Distributions may pin Go to itself; unless the user said so, let it fetch the
# version that go.mod names.
ifeq ($(origin GOTOOLCHAIN),undefined)
ifeq ($(shell grep -s '^GOTOOLCHAIN=' "$$(go env GOENV 2>/dev/null)"),)
export GOTOOLCHAIN := auto
endif
endif

# The tests of the tag e2e. All others run under `make test`, and not once more.
E2E_FILES = $(shell grep -rl --include='*_test.go' '^//go:build.*e2e' tests)
# The longest first: otherwise they are alone at the end. go test keeps the order.
E2E_PACKAGES = $(addprefix ./tests/,release concourse page packages container) $(addprefix ./,$(patsubst %/,%,$(sort $(dir $(E2E_FILES)))))
E2E_TESTS = $(shell grep -ho '^func Test[A-Za-z0-9_]*' $(E2E_FILES) | sed 's/func //' | grep -vx TestMain | paste -sd'|')

PROGRAMS := dispatch runc-amd-wrapper rocm-exporter concourse-exporter gpu-baseline gpu-device-plugin gpu-dra-driver pebble
PACKER = go run -buildvcs=false ./tools/charmpack/cmd
TOOL = go tool -modfile=tools/pinned/go.mod
# The compiler and staticcheck need a fifth less processor time if they collect garbage less often.
LESS_GC = GOGC=400
# No file is for builds without one of these tags, so one pass with all of them reads every file.
ALL_TAGS = e2e,controller,kubernetes,terraform
LINKED = -X github.com/fourdollars/concourse-ci-machine/internal/base/version.linked=$(VERSION)
# Puts temporary files of tests into memory. t.TempDir prefers GOTMPDIR, os.TempDir ignores it.
IN_MEMORY = GOTMPDIR= TMPDIR="$$("$(CURDIR)/scripts/test-tmpdir.sh")"
# Shows what runs, and keeps the events in JSON.
GOTEST = $(CURDIR)/bin/progress $(if $(JSON),-json=$(abspath $(JSON))) go test -json -buildvcs=false

.DEFAULT_GOAL := help
.PHONY: help need-go need-build progress build $(PROGRAMS) sandbox demo check vulncheck test update e2e programs-amd64 programs-arm64 packer package-tree test-juju test-loki test-controller test-kubernetes test-terraform charm charm-takeover windows release publish site charm-tree hooks bench fuzz mutate clean packages apt-repository images

# The targets that help shows, in the order of use. CONTRIBUTING.md describes all targets.
SHOWN = Try_it: demo \
	Change_it: test update check fuzz mutate bench \
	Test_with_real_parts: e2e test-juju test-controller test-kubernetes test-terraform test-loki \
	Build_it: build charm packages images windows site \
	Release_it: release \
	Clean_up: clean

help:
	@awk -F ':.*## ' -v shown="$(SHOWN)" '/^[a-z0-9-]+:.*## / { text[$$1] = $$2 } \
	END { n = split(shown, word, " "); for (i = 1; i <= n; i++) \
		if (sub(/:$$/, "", word[i])) { gsub(/_/, " ", word[i]); print word[i] } \
		else printf "  make %-16s %s\n", word[i], text[word[i]] }' Makefile

need-go:
	@scripts/need-go.sh

need-build: need-go
	@VERSION="$(VERSION)" scripts/need-build.sh "$(BIN)" "$(GOARCH)"

build: $(PROGRAMS) ## the programs of the charm, in bin/ (GOARCH=arm64: bin/arm64/)

dispatch runc-amd-wrapper rocm-exporter concourse-exporter gpu-baseline gpu-device-plugin: PACKAGE = ./src/$@
dispatch runc-amd-wrapper rocm-exporter concourse-exporter gpu-baseline gpu-device-plugin gpu-dra-driver: X = $(LINKED)
pebble: PACKAGE = github.com/canonical/pebble/cmd/pebble
pebble: X = -X github.com/canonical/pebble/cmd.Version=$$(go list -m -f '{{.Version}}' github.com/canonical/pebble)
# Without grpc's tracing pages, which nobody serves: a quarter less.
gpu-device-plugin gpu-dra-driver: TAGS = -tags grpcnotrace
# A module of its own, with a larger tree than that of all other programs together.
gpu-dra-driver: IN = -C src/gpu-dra-driver
gpu-dra-driver: PACKAGE = .
$(PROGRAMS): need-build
	@echo "go build $(BIN)/$@"
	@GOOS=linux GOARCH=$(GOARCH) $(LESS_GC) go build $(IN) $(TAGS) -buildvcs=false -ldflags "-s -w $(X)" -o $(abspath $(BIN))/$@ $(PACKAGE)

sandbox: need-build
	@echo "go build bin/sandbox"
	@go build -buildvcs=false -o bin/sandbox ./tools/sandbox

progress: need-go
	@go build -buildvcs=false -o bin/progress ./tests/progress

demo: build sandbox ## the charm without Juju and GPU: as root a whole CI on a throwaway machine, otherwise hooks of a worker
	@bin/sandbox demo $(if $(VERBOSE),-v) $(if $(HOOKS),-hooks)

# unreached lists functions that no program reaches, except functions for Windows and of the
# packages that play the machine for the demo and for tests, and functions that not even a test
# reaches. node.go is for src/gpu-dra-driver, a module of its own. vetsource has the checks of
# go vet, which would first compile everything for Windows.
check: need-go ## gofmt, go vet, actionlint, staticcheck and unreached functions
	@echo "gofmt, go vet, staticcheck and unreached functions: three to six minutes at first." >&2
	@bad=$$("$$(go env GOROOT)/bin/gofmt" -l .) && \
	if [ -n "$$bad" ]; then echo "gofmt -w would change:"; echo "$$bad"; exit 1; fi
	$(LESS_GC) go vet -buildvcs=false -tags $(ALL_TAGS) ./...
	cd tools/pinned && go test -buildvcs=false ./... && go build -buildvcs=false -o $(CURDIR)/bin/ ./unreached ./vetsource
	@analyzers() { "$$@" help | grep -o '^    [a-z][a-z]*'; }; \
	if [ "$$(analyzers go tool vet)" != "$$(analyzers bin/vetsource)" ]; then echo "tools/pinned/vetsource: its analyzers are not those of go vet"; exit 1; fi
	GOOS=windows GOARCH=amd64 bin/vetsource ./src/concourse-worker-windows/... ./tests/windows/...
	$(TOOL) actionlint .github/workflows/*.yml pipelines/github/*.yml
	$(LESS_GC) $(TOOL) staticcheck -tags $(ALL_TAGS) ./...
	bin/unreached -programs src,tools -skip internal/testutil,src/concourse-worker-windows,internal/kube/deviceplugin/node.go -tags $(ALL_TAGS)

# Asks vuln.go.dev; test-only modules are not shipped and not checked.
vulncheck: need-go ## known vulnerabilities that the programs reach, by govulncheck; asks vuln.go.dev
	$(TOOL) govulncheck ./src/... ./tools/...

ifdef PKG
test: progress
	$(IN_MEMORY) $(GOTEST) -timeout 2h $(PKG)
else
test: check progress ## check, and all tests that need no root (PKG=./internal/gpu/...: only these packages)
	@echo "All tests without root: some minutes on two cores." >&2
	$(IN_MEMORY) $(GOTEST) -vet=off -timeout 2h ./tests/hooks ./...
endif

# Packages without golden files do not have the flag.
update: need-go ## rewrites golden files and generated pages (PKG="./tests/docs ./internal/gpu/...": of these packages)
	@all=$$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' $(or $(PKG),$(error name packages: make update PKG="./tests/docs ./internal/gpu/..."))) || exit; \
	with=$$(echo "$$all" | awk '/testutil\/hosttest|\/internal\/oci / { print $$1 }'); \
	if [ -z "$$with" ]; then echo "cannot update $(PKG): no package has golden files" >&2; exit 1; fi; \
	$(IN_MEMORY) go test -buildvcs=false -vet=off $$with -update

e2e: build progress ## tests that need root; installs packages of Debian or Ubuntu
	@scripts/e2e-packages.sh
	@echo "The tests with real parts: half an hour and more on two cores." >&2
	E2E=1 E2E_WITHOUT="$$(scripts/e2e-packages.sh without)" \
	$(GOTEST) -tags e2e -vet=off -count=1 -p 3 -timeout 2h -run '^($(E2E_TESTS))$$' $(E2E_PACKAGES)

# A module of its own: it links Juju, which is AGPL-3.0. Its hooks mostly wait for
# one another's processes, hence more at a time than there are cores.
test-juju: progress ## the charm's hooks under Juju 3.6.11's own agent and hook tools; downloads Juju
	@echo "Juju 3.6.11 is downloaded and compiled at first: minutes." >&2
	cd tests/juju && $(LESS_GC) go vet -buildvcs=false ./... && $(GOTEST) -count=1 -parallel 4 -timeout 2h ./...

# A module of its own: it links Loki, which is AGPL-3.0.
test-loki: progress ## the alert rules on logs under Loki 3.5.7; downloads Loki
	@echo "Loki 3.5.7 is downloaded and compiled at first: minutes." >&2
	cd tests/loki && $(LESS_GC) go vet -buildvcs=false ./... && $(GOTEST) -count=1 -timeout 2h ./...

# juju/ below it is a module of its own, for the same reason. The cache folder keeps
# what was built; CONTROLLER_CACHED_ONLY=1 skips where there is nothing.
test-controller: progress ## the charm on a controller of Juju 4.1 with LXD; needs root, builds Juju at first
	@scripts/e2e-packages.sh
	@echo "Juju 4.1 is built at first, half an hour; the tests take as long again." >&2
	E2E=1 E2E_WITHOUT="$$(scripts/e2e-packages.sh without)" \
	$(GOTEST) -tags controller -count=1 -timeout 2h ./tests/controller

# k8s/, k8s-1.36/ and containerd/ below it are modules of their own, and kept by the cache folder as
# well; KUBERNETES_CACHED_ONLY=1 skips if there is nothing. The DRA driver is a module of its
# own too, because neither dispatch nor importers of amdgpu should have its dependencies.
test-kubernetes: progress ## pods on stand-in GPUs under Kubernetes 1.37, or KUBERNETES=1.36; needs root, builds it at first
	@E2E_MORE="etcd-server containernetworking-plugins" scripts/e2e-packages.sh
	cd src/gpu-dra-driver && $(LESS_GC) go vet -buildvcs=false ./... && $(IN_MEMORY) $(GOTEST) ./...
	E2E=1 $(GOTEST) -tags kubernetes -count=1 -timeout 2h ./tests/kubernetes

# tofu/ and provider/ below it are modules of their own, and kept by the cache folder as
# well; TERRAFORM_CACHED_ONLY=1 skips where there is nothing.
test-terraform: progress ## the Terraform module under OpenTofu; builds it at first
	$(GOTEST) -tags terraform -count=1 -timeout 2h ./tests/terraform

charm: build ## the charm, as concourse-ci-machine_amd64.charm (GOARCH=arm64: _arm64.charm)
	$(PACKER) pack -bin $(BIN) -arch $(GOARCH) -version "$(VERSION)" -o $(CHARM)

# For a Juju that refuses endpoints and resources which the charm in use lacks.
charm-takeover: build ## the charm without endpoints and resources that the Python charm lacks
	$(PACKER) pack -takeover -bin $(BIN) -arch $(GOARCH) -version "$(VERSION)" -o $(TAKEOVER_CHARM)

# Windows runs this program alone. It has the same bytes wherever it is built.
WINDOWS ?= bin/windows/concourse-worker-windows.exe
windows: need-go ## concourse-worker-windows.exe, in bin/windows/
	@echo "go build $(WINDOWS)"
	@GOOS=windows GOARCH=amd64 go build -buildvcs=false -ldflags "-s -w $(LINKED)" -o $(WINDOWS) ./src/concourse-worker-windows

release: need-go ## charms, packages and checksums of a release, in dist/ (VERSION=1.0.0, from a clean clone)
	@scripts/release.sh "$(if $(filter command line,$(origin VERSION)),$(VERSION))"

publish: ## a release on GitHub from dist/; the workflow release calls it
	@scripts/publish.sh "$(VERSION)"

site: need-go ## docs/ as a site, in dist/site; needs mkdocs-material
	@scripts/site.sh

charm-tree: build ## the files of the charm in the folder CHARM_TREE; charmcraft calls it
	$(PACKER) tree -bin $(BIN) -arch $(GOARCH) -version "$(VERSION)" -o "$(CHARM_TREE)"

hooks: need-go ## hooks/ for the relations in metadata.yaml
	$(PACKER) hooks

# The wrapper and the exporter are the charm's.
PACKAGED = bin/packages/$*
packages: $(addprefix package-,$(PACKAGE_ARCHS)) ## deb and rpm packages in dist/packages/, for apt in dist/apt/ (SIGNING_KEY=key of gpg)
	@$(MAKE) --no-print-directory apt-repository
	@ls -l $(PACKAGES) $(APT)

# The time of the commit, because apt refuses a repository that is older than the last one.
apt-repository: packer
	@SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null)}" bin/packer -repository $(APT) -o $(PACKAGES)
ifdef SIGNING_KEY
	@gpg --batch --local-user "$(SIGNING_KEY)" --output $(APT)/InRelease --clearsign $(APT)/Release
	@gpg --batch --armor --export "$(SIGNING_KEY)" >$(APT)/concourse-ci-machine.asc
endif

# First, because it checks what is missing, and shows how long it takes.
programs-amd64 programs-arm64: programs-%: need-go
	@$(MAKE) --no-print-directory build GOARCH=$* VERSION="$(VERSION)" BIN=bin/packages/charm-bin/$* \
		MODULES=tools/packages TAKES="five minutes on two cores"

package-%: programs-% packer package-tree
	@echo "go build $(PACKAGED)/gpukit"
	@mkdir -p $(PACKAGED)
	@GOOS=linux GOARCH=$* go build -buildvcs=false -ldflags "-s -w $(LINKED)" -o $(PACKAGED)/ ./src/gpukit
	@ln -f bin/packages/charm-bin/$*/runc-amd-wrapper bin/packages/charm-bin/$*/rocm-exporter $(PACKAGED)/
	@$(PACKER) tree -bin bin/packages/charm-bin/$* -arch $* -version "$(VERSION)" -o bin/packages/tree/charm-$*
	@bin/packer -bin $(PACKAGED) -tree bin/packages/tree -arch $* -version "$(VERSION)" -compression $(COMPRESSION) -o $(PACKAGES)

packer: need-go
	@go build -C tools/packages -buildvcs=false -o $(CURDIR)/bin/packer .

package-tree: need-go
	@rm -rf bin/packages/tree && mkdir -p bin/packages/tree
	@go build -buildvcs=false -ldflags "$(LINKED)" -o bin/manpages ./tools/manpages
	@for p in gpukit concourse-ci-machine rocm-exporter; do \
		bin/manpages bin/packages/tree/man/$$p $$p bin/packages/tree/completion || exit 1; done
	@go run -buildvcs=false ./tools/monitoring src bin/packages/tree/monitoring

# One archive of both architectures, for nodes of Kubernetes without a unit.
IMAGE ?= dist/images/concourse-gpu-node.tar
# A tag has no +.
IMAGE_NAME ?= concourse-gpu-node:$(subst +,.,$(VERSION))
images: need-go ## an OCI image for nodes of Kubernetes, in dist/images/
	@for arch in amd64 arm64; do \
		echo "go build bin/images/$$arch: gpu-device-plugin, gpu-dra-driver, rocm-exporter, gpukit" && \
		GOOS=linux GOARCH=$$arch go build -tags grpcnotrace -buildvcs=false -ldflags "-s -w $(LINKED)" -o bin/images/$$arch/ ./src/gpu-device-plugin ./src/rocm-exporter ./src/gpukit && \
		GOOS=linux GOARCH=$$arch go build -C src/gpu-dra-driver -tags grpcnotrace -buildvcs=false -ldflags "-s -w $(LINKED)" -o $(CURDIR)/bin/images/$$arch/ . || exit 1; \
	done
	@go build -C tools/images -buildvcs=false -o $(CURDIR)/bin/imager .
	@bin/imager -bin bin/images -name "$(IMAGE_NAME)" -o $(IMAGE)
	@sha256sum $(IMAGE)

bench: build ## benchmarks, some 7 minutes
	@found=$$(go list -e -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./tests/bench/*/) && \
	if [ -z "$$found" ]; then echo "there is no program in tests/bench"; exit 1; fi; \
	for p in $$found; do echo "== $$p"; go run -buildvcs=false "$$p" || exit 1; done

fuzz: need-go ## fuzzes each parser of outside input for FUZZTIME=10s
	@scripts/fuzz.sh $(FUZZTIME)

# Edited programs may do anything to files and processes, so it needs a user without root.
MUTATE ?=
mutate: need-go ## finds edits that no test notices, half an hour (MUTATE="-n 40 ./internal/pool/...": fewer)
	@go run -buildvcs=false ./tools/mutate $(MUTATE)

clean: ## removes what the other targets wrote
	rm -rf bin dist concourse-ci-machine_*.charm concourse-ci-machine-takeover_*.charm
