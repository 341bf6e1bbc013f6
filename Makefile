# `make` alone lists the targets. Everything works with the make, the shell and the tools of Linux and macOS.

# Image that the docker-* and deploy targets use.
IMAGE_TAG_BASE ?= ghcr.io/proxy-operator/proxy-operator
IMG ?= $(IMAGE_TAG_BASE):latest
# What the binary and the image tell.
VERSION ?= dev
# docker, or anything with its command line.
CONTAINER_TOOL ?= docker
PLATFORMS ?= linux/amd64,linux/arm64
# What deploy and build-installer render: config/default, or config/namespaced for chosen namespaces.
OVERLAY ?= config/default
# kubectl of the PATH, else the one that comes with the test control plane.
KUBECTL ?= kubectl
GO ?= go
# Packages that go-test tests, and more flags for it.
PKG ?= ./...
TESTFLAGS ?=
# More arguments for the simulation, and the seed of sim-long.
SIMFLAGS ?=
SEED ?=
# More arguments for the soak.
SOAKFLAGS ?=
# More arguments for the end-to-end test.
E2EFLAGS ?=
# More arguments for the manager that `make run` starts.
ARGS ?=
# true: delete without complaint what isn't there.
ignore-not-found ?= true
# How long uninstall and undeploy wait until what they delete is gone.
DELETE_TIMEOUT ?= 60s

SHELL = /usr/bin/env bash -o pipefail
.SHELLFLAGS = -ec
.DELETE_ON_ERROR:
# Targets such as verify write what others read.
.NOTPARALLEL:

# Under another name, as a recipe that says MAKE is run by `make -n` too.
submake := $(MAKE)
LOCALBIN := $(CURDIR)/bin
CONTROLLER_GEN := $(LOCALBIN)/controller-gen
KUSTOMIZE := $(LOCALBIN)/kustomize
CRD_REF_DOCS := $(LOCALBIN)/crd-ref-docs
ENVTEST := $(LOCALBIN)/setup-envtest
GOLANGCI_LINT := $(LOCALBIN)/golangci-lint
HELM3 := $(LOCALBIN)/helm3
HELM4 := $(LOCALBIN)/helm4

##@ General

.PHONY: help
help: ## Show this help
	@bold=; off=; if [ -t 1 ]; then bold=$$(printf '\033[1m'); off=$$(printf '\033[0m'); fi; \
	awk -v bold="$$bold" -v off="$$off" 'BEGIN { FS = ":.*## "; print "Usage: make TARGET" } \
		/^##@/ { printf "\n%s%s%s\n", bold, substr($$0, 5), off } \
		/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: all
all: manifests generate fmt build ## Generate, format and build

.PHONY: demo
demo: build ## See it at work on this machine: a control plane, proxies, requests through them (ONCE=1: end by itself)
	@$(GO) build -o $(LOCALBIN)/demo ./hack/demo
	@ONCE="$(ONCE)" $(LOCALBIN)/demo

##@ Development

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate the CRD and the manager's role from the Go sources, and of the chart what comes from these
	@$(CONTROLLER_GEN) crd rbac:roleName=manager-role paths="./api/..." paths="./controllers/..." \
		output:crd:artifacts:config=config/crd/bases output:rbac:artifacts:config=config/rbac
	@$(GO) run ./hack/chart generate

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate the DeepCopy methods of the API types
	@$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths="./api/..."

.PHONY: docs
docs: $(CRD_REF_DOCS) ## Generate docs/reference/api.md from the API types
	@mkdir -p docs/reference
	@$(CRD_REF_DOCS) --config=hack/crd-ref-docs.yaml --source-path=api --renderer=markdown \
		--log-level=WARN --output-path=docs/reference/api.md

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the Go sources
	@$(GOLANGCI_LINT) fmt ./...

.PHONY: vet
vet: ## Run go vet
	$(GO) vet ./...

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run the linters of .golangci.yml
	$(GOLANGCI_LINT) run ./...

.PHONY: lint-fix
lint-fix: $(GOLANGCI_LINT) ## Run the linters and let them mend what they can
	$(GOLANGCI_LINT) run --fix ./...

.PHONY: lint-config
lint-config: $(GOLANGCI_LINT) ## Check .golangci.yml against its schema
	@schema="$$($(GO) -C tools/golangci list -m -f '{{.Dir}}' github.com/golangci/golangci-lint/v2)/jsonschema" && \
	$(GOLANGCI_LINT) config verify --schema "$$schema/golangci.jsonschema.json"

.PHONY: verify
verify: $(CONTROLLER_GEN) $(CRD_REF_DOCS) $(KUSTOMIZE) ## Check that what is generated is up to date and what is committed is text
	@GO="$(GO)" KUSTOMIZE="$(KUSTOMIZE)" hack/verify.sh $(submake) --no-print-directory manifests generate docs

.PHONY: go-test
go-test: ## Run the Go tests alone, with the race detector (PKG=./controllers/... narrows them)
	@assets="$$($(GO) run ./hack/cluster assets)" && \
	KUBEBUILDER_ASSETS="$$assets" $(GO) test -race -timeout=20m -coverprofile=cover.out $(TESTFLAGS) $(PKG)

.PHONY: helm4-test
helm4-test: ## Install, upgrade and uninstall the chart with Helm 4, which has a module of its own
	@# Never from the cache: Go doesn't see that the chart, which is outside the module, has changed.
	@assets="$$($(GO) run ./hack/cluster assets)" && \
	KUBEBUILDER_ASSETS="$$assets" GOWORK=off $(GO) -C test/chart/helm4 test -count=1 -timeout=10m $(TESTFLAGS) ./...

.PHONY: sim-slice
sim-slice: ## Run 5,000 plans of the simulation and every mutant (go-test, under the race detector, runs fewer)
	$(GO) test -count=1 ./internal/sim

.PHONY: sim
sim: ## Run the simulation: 60,000 plans of one fault and every mutant (SIMFLAGS: -plans=0 for all plans)
	@$(GO) run ./hack/sim $(SIMFLAGS)

.PHONY: sim-long
sim-long: ## Run it for long: plans of two faults, fleets of 20 Proxies with two leaders, drawn from a new seed (SEED=N repeats one)
	@$(GO) run ./hack/sim -plans=60000 -pairs=200000 -fleets=5000 -seed=$(or $(SEED),$$RANDOM) $(SIMFLAGS)

.PHONY: soak-slice
soak-slice: build ## Change 20 Proxies for 30 s, kill the manager every 3 s, and look that nothing is lost, doubled or left (about 2 minutes)
	@$(GO) build -o $(LOCALBIN)/soak ./hack/soak
	@$(LOCALBIN)/soak -binary=$(LOCALBIN)/proxy-operator -proxies=20 -for=30s -kill-every=3s $(SOAKFLAGS)

.PHONY: soak
soak: build ## The same with 500 Proxies for 5 minutes, killed every 7 s (about 4 GB of memory; SOAKFLAGS: -proxies=N, -seed=N ...)
	@$(GO) build -o $(LOCALBIN)/soak ./hack/soak
	@$(LOCALBIN)/soak -binary=$(LOCALBIN)/proxy-operator $(SOAKFLAGS)

.PHONY: e2e
e2e: IMG := $(IMAGE_TAG_BASE):e2e
e2e: VERSION := e2e
e2e: OVERLAY := config/default
e2e: $(KUSTOMIZE) $(HELM3) $(HELM4) ## Prove image and chart on a real node of our own (Linux, as root): pods, traffic, outages, rights, Helm (E2EFLAGS: -short, -only=helm)
	@[ "$$(id -u)" = 0 ] || { echo "make e2e runs a node, which needs root: sudo -E env PATH=\"\$$PATH\" make e2e" >&2; exit 1; }
	@mkdir -p $(LOCALBIN)/e2e
	@$(GO) build -o $(LOCALBIN)/cluster ./hack/cluster
	@$(GO) build -o $(LOCALBIN)/e2e/e2e ./test/e2e
	@$(GO) run ./hack/image -name=$(IMG) -version=$(VERSION) -platforms=linux/$$($(GO) env GOHOSTARCH) -out=$(LOCALBIN)/e2e/image.tar
	@($(render)) > $(LOCALBIN)/e2e/manifests.yaml
	@$(GO) run ./hack/chart earlier $(LOCALBIN)/e2e
	@test/e2e/residue.sh $(LOCALBIN)/cluster
	@$(LOCALBIN)/cluster up --node --audit-policy=test/e2e/audit-policy.yaml -- $(LOCALBIN)/e2e/e2e -image=$(IMG) $(E2EFLAGS)

.PHONY: test
test: verify lint-config lint vet go-test helm4-test sim-slice soak-slice ## Run everything that must hold: verify, lint, vet, all Go tests, the simulation, a short soak; coverage in cover.out

.PHONY: bench
bench: build ## Measure what the project promises; one line for each promise
	@$(GO) build -o $(LOCALBIN)/bench ./hack/bench
	@$(LOCALBIN)/bench

##@ Build

.PHONY: build
build: ## Build bin/proxy-operator
	@mkdir -p $(LOCALBIN)
	$(GO) build -o $(LOCALBIN)/proxy-operator ./cmd

.PHONY: run
run: need-cluster build ## Run the manager here, with the local provider, against the cluster of your kubeconfig (Ctrl-C ends it)
	$(LOCALBIN)/proxy-operator manager --config=config/local/operator.yaml --log-format=console \
		--leader-elect --leader-election-namespace=default \
		--metrics-bind-address=127.0.0.1:8443 --health-probe-bind-address=127.0.0.1:8081 \
		--judge-bind-address=127.0.0.1:8082 --health-deny-cidr=169.254.0.0/16 $(ARGS)

.PHONY: image
image: ## Write the image IMG for PLATFORMS to dist/image.tar, and its SBOMs beside it; needs no container engine
	@$(GO) run ./hack/image -name=$(IMG) -version=$(VERSION) -platforms=$(PLATFORMS) -out=dist/image.tar

.PHONY: docker-build
docker-build: ## Build the image IMG with docker
	$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) -t $(IMG) .

.PHONY: docker-push
docker-push: ## Push the image IMG
	$(CONTAINER_TOOL) push $(IMG)

.PHONY: docker-buildx
docker-buildx: ## Build the image IMG for PLATFORMS and push it
	$(CONTAINER_TOOL) buildx inspect proxy-operator-builder >/dev/null 2>&1 || $(CONTAINER_TOOL) buildx create --name proxy-operator-builder
	$(CONTAINER_TOOL) buildx build --builder proxy-operator-builder --push --build-arg VERSION=$(VERSION) --platform=$(PLATFORMS) --tag $(IMG) .
	$(CONTAINER_TOOL) buildx rm proxy-operator-builder

.PHONY: build-installer
build-installer: manifests $(KUSTOMIZE) ## Write all that is to be installed to dist/install.yaml
	@mkdir -p dist
	@($(render)) > dist/install.yaml
	@echo "dist/install.yaml installs $(OVERLAY) with $(IMG)"

.PHONY: chart
chart: manifests ## Package the Helm chart into dist/
	@$(GO) run ./hack/chart package dist

##@ Deployment

# Prints the manifests of OVERLAY with IMG, through a kustomization in a scratch folder, so that no file under config/ changes.
render = rm -rf $(LOCALBIN)/overlay && mkdir -p $(LOCALBIN)/overlay && cd $(LOCALBIN)/overlay && \
	$(KUSTOMIZE) create --resources ../../$(OVERLAY) && \
	$(KUSTOMIZE) edit set image ghcr.io/proxy-operator/proxy-operator=$(IMG) && \
	cp ../../config/manager/proxy_image.yaml . && printf 'replacements:\n- path: proxy_image.yaml\n' >> kustomization.yaml && \
	$(KUSTOMIZE) build .

# Said at once, before anything is built. Inside a pod there is no kubeconfig, and none is needed.
.PHONY: need-cluster
need-cluster:
	@IFS=: read -ra files <<< "$${KUBECONFIG:-$$HOME/.kube/config}"; found="$${KUBERNETES_SERVICE_HOST:-}"; \
	for f in "$${files[@]}"; do if [ -s "$$f" ]; then found=1; fi; done; \
	case '$(subst ','\'',$(ARGS))' in *--kubeconfig*) found=1 ;; esac; \
	[ -n "$$found" ] || { echo "no cluster: export KUBECONFIG, or start one with: go run ./hack/cluster up" >&2; exit 1; }

# Sets k to a kubectl.
find-kubectl = k="$$(command -v $(KUBECTL))" || { k="$$($(GO) run ./hack/cluster assets)/kubectl" && [ -x "$$k" ]; } || \
	{ echo "no kubectl here: install one, or say where it is with KUBECTL=PATH" >&2; exit 1; }

# Without the operator nobody takes the machines of its Proxies down, and their finalizers would hold the CRD for ever.
# External ones have neither.
no-proxies-left = n="$$("$$k" get proxies.crawl.proxy-operator.io --all-namespaces \
		--output=jsonpath='{range .items[*]}{.spec.mode}{"\n"}{end}' 2>/dev/null | grep -cv '^External$$')" || n=0; \
	if [ "$$n" -gt 0 ] && [ "$(FORCE)" != 1 ]; then \
		echo "Managed Proxies are left ($$n), and their machines would be too. While the operator runs, delete them first:" >&2; \
		echo "  kubectl delete proxies --all --all-namespaces" >&2; \
		echo "or go on all the same with FORCE=1." >&2; exit 1; fi

# Deletes the manifests in bin/deleted.yaml and says what is still there in the end: a namespace where no controller
# manager runs, a CRD with Proxies that nobody lets go.
delete-all = "$$k" delete --ignore-not-found=$(ignore-not-found) --timeout=$(DELETE_TIMEOUT) -f $(LOCALBIN)/deleted.yaml || \
	{ echo "These are left. What is marked as deleted goes when what it waits for is gone:" >&2; \
	"$$k" get --ignore-not-found --output=name -f $(LOCALBIN)/deleted.yaml >&2; exit 1; }

.PHONY: install
install: need-cluster manifests $(KUSTOMIZE) ## Install the CRD into the cluster of your kubeconfig
	@$(find-kubectl) && $(KUSTOMIZE) build config/crd | "$$k" apply -f -

.PHONY: uninstall
uninstall: need-cluster $(KUSTOMIZE) ## Remove the CRD; refused while there are Managed Proxies (FORCE=1: all the same)
	@$(find-kubectl); $(no-proxies-left); \
	$(KUSTOMIZE) build config/crd > $(LOCALBIN)/deleted.yaml; $(delete-all)

.PHONY: deploy
deploy: need-cluster manifests $(KUSTOMIZE) ## Install CRD and manager (IMG, OVERLAY) into the cluster of your kubeconfig, one that runs pods
	@$(find-kubectl) && ($(render)) | "$$k" apply -f -

.PHONY: undeploy
undeploy: need-cluster $(KUSTOMIZE) ## Remove manager and CRD; refused while there are Managed Proxies (FORCE=1: all the same)
	@$(find-kubectl); $(no-proxies-left); \
	($(render)) > $(LOCALBIN)/deleted.yaml; $(delete-all)

##@ Dependencies

# The versions are those of the modules in tools/, and of test/chart/helm4: change them there with `go get -tool`. A tool is
# built anew when its module or the Go version changes.
# $(call build-tool,MODULE FOLDER,PACKAGE): builds for this machine, whatever GOOS and GOARCH the product is built for.
build-tool = echo "building $(notdir $@)"; GOOS= GOARCH= GOWORK=off $(GO) -C $(1) build -o $@ $(2)

# Touched only when it changes.
$(LOCALBIN)/.goversion: FORCE-RUN
	@mkdir -p $(LOCALBIN); v="$$($(GO) env GOVERSION)"; \
	if [ "$$(cat $@ 2>/dev/null)" != "$$v" ]; then echo "$$v" > $@; fi

.PHONY: FORCE-RUN
FORCE-RUN:

TOOLS := tools/go.mod tools/go.sum $(LOCALBIN)/.goversion

.PHONY: controller-gen
controller-gen: $(CONTROLLER_GEN) ## Build controller-gen into ./bin
$(CONTROLLER_GEN): $(TOOLS)
	@$(call build-tool,tools,sigs.k8s.io/controller-tools/cmd/controller-gen)

.PHONY: kustomize
kustomize: $(KUSTOMIZE) ## Build kustomize into ./bin
$(KUSTOMIZE): $(TOOLS)
	@$(call build-tool,tools,sigs.k8s.io/kustomize/kustomize/v5)

.PHONY: crd-ref-docs
crd-ref-docs: $(CRD_REF_DOCS) ## Build crd-ref-docs into ./bin
$(CRD_REF_DOCS): $(TOOLS)
	@$(call build-tool,tools,github.com/elastic/crd-ref-docs)

.PHONY: envtest
envtest: $(ENVTEST) ## Build setup-envtest into ./bin
$(ENVTEST): $(TOOLS)
	@$(call build-tool,tools,sigs.k8s.io/controller-runtime/tools/setup-envtest)

.PHONY: golangci-lint
golangci-lint: $(GOLANGCI_LINT) ## Build golangci-lint with kubeapilinter into ./bin
$(GOLANGCI_LINT): tools/golangci/go.mod tools/golangci/go.sum $(LOCALBIN)/.goversion
	@$(call build-tool,tools/golangci,sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter)

.PHONY: helm3
helm3: $(HELM3) ## Build Helm 3 into ./bin
$(HELM3): tools/helm3/go.mod tools/helm3/go.sum $(LOCALBIN)/.goversion
	@$(call build-tool,tools/helm3,helm.sh/helm/v3/cmd/helm)

.PHONY: helm4
helm4: $(HELM4) ## Build Helm 4 into ./bin
$(HELM4): test/chart/helm4/go.mod test/chart/helm4/go.sum $(LOCALBIN)/.goversion
	@$(call build-tool,test/chart/helm4,helm.sh/helm/v4/cmd/helm)

.PHONY: setup-envtest
setup-envtest: ## Have etcd and kube-apiserver ready for tests, and print their folder
	@$(GO) run ./hack/cluster assets

.PHONY: clean
clean: ## Remove what make built, but not the state of `make run`
	rm -rf bin dist cover.out
