SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
IMAGE   ?= scaledjob-operator
KUBECTL ?= kubectl
LDFLAGS := -X main.version=$(VERSION)
TOOL    := go tool -modfile=hack/tools/go.mod
LINT    := go tool -modfile=hack/tools/golangci/go.mod golangci-lint
HELM    := go tool -modfile=hack/tools/helm/go.mod helm
CHART   := charts/scaledjob-operator
CRD     := config/crd/bases/batch.miracle.dev_scaledjobs.yaml
# The pages that make generate writes, or in which it writes a table.
GENERATED := docs/reference/api.md docs/reference/flags.md docs/reference/metrics.md docs/reference/redis-permissions.md docs/how-to/queues.md docs/how-to/frameworks

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^##@ / {print "\n" substr($$0, 5)} \
	/^[a-z0-9-]+:.*## / {gsub(/ \| /, sprintf("\n%17s", ""), $$2); printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Try it

DEMO = $(if $(REDIS),-redis='$(REDIS)') $(if $(KEEP),-keep) $(SCENE)
.PHONY: demo
demo: ## Show the operator at work, then remove everything. | SCENE=burst plays one scene, SCENE=list lists them. REDIS=host:port uses your Redis. | KEEP=1 leaves everything running until Ctrl-C.
	@instead=$$(go run ./hack/demo/check $(DEMO)); [ -z "$$instead" ] || { echo "$$instead"; exit; }; \
	[ -e bin/demo ] || printf "%s\n" "The demo takes 90 seconds. Before that, it is compiled, which takes minutes the first time." "Ctrl-C stops it, and the same command continues."; \
	hack/programs.sh etcd kube-apiserver kube-controller-manager > /dev/null && \
	hack/programs.sh compile "the demo" bin/demo -buildvcs=false -ldflags=-w ./hack/demo && \
	hack/programs.sh compile "the operator" /dev/null -buildvcs=false -ldflags=-w ./cmd && \
	bin/demo $(DEMO) || [ $$? = 130 ]

.PHONY: picture
picture: ## Regenerate docs/images/demo.svg from a real run, on a real Redis. Needs tmux and redis-cli.
	@screen=$$(mktemp); trap 'rm -f "$$screen"' EXIT; hack/picture/capture.sh > "$$screen"; \
	go run ./hack/picture < "$$screen" > docs/images/demo.svg

.PHONY: cli-pictures
cli-pictures: parts build ## Draw docs/images/cli-*.svg from real runs of kubectl scaledjob, which takes two minutes. Needs tmux.
	@screens=$$(mktemp -d); trap 'rm -rf "$$screens"' EXIT; go run ./hack/clipictures bin/kubectl-scaledjob "$$screens"; \
	for screen in "$$screens"/*; do go run ./hack/picture < "$$screen" > "docs/images/$${screen##*/}.svg"; done

.PHONY: dashboard-pictures
dashboard-pictures: parts ## Draw docs/images/dashboards/*.svg from a real run, which takes six minutes.
	@go run ./hack/dashboardpictures docs/images/dashboards

##@ Work on it

.PHONY: build
build: ## Build the operator into bin/manager, and the plugin of kubectl into bin/kubectl-scaledjob.
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/manager ./cmd
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/kubectl-scaledjob ./cmd/kubectl-scaledjob

.PHONY: parts
parts: ## Get what test and bench need, once per version: the control plane, kubectl and Redis. | K8S=1.34 selects a version of Kubernetes, PARTS=compile downloads nothing, REDIS_SERVER=valkey uses Valkey.
	@hack/programs.sh

.PHONY: test
test: parts ## Run each promise once, on a real API server and a real Redis. | PACKAGES=./internal/... selects packages, RUN=TestName tests.
	@PACKAGES='$(value PACKAGES)' RUN='$(value RUN)' hack/test.sh short

.PHONY: test-all
test-all: parts ## Run every test, with the same variables.
	@PACKAGES='$(value PACKAGES)' RUN='$(value RUN)' hack/test.sh all

.PHONY: e2e-node
e2e-node: ## Make a release and test it on a real node, as root, without Docker. | SHORT=yes leaves out the long tests, E2E_NODE=kind uses kind.
	@RUN='$(value RUN)' hack/e2e-node.sh $(if $(SHORT),short,all)

.PHONY: fuzz
fuzz: ## Fuzz for TIME=30s per target. | PACKAGES=./internal/jobs selects packages.
	@# Go fuzzes one target at a time. Each package lists its own, above a line that names the package.
	@go test -list '^Fuzz' $(or $(PACKAGES),./internal/...) | awk '/^Fuzz/ {targets[++n] = $$1} /^ok/ {for (; n; n--) print targets[n], $$2}' | \
	while read -r target package; do \
		echo "$$package $$target"; \
		go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(TIME),30s) "$$package" < /dev/null; \
	done

.PHONY: bench
bench: parts ## Measure how fast messages become Jobs. | MEASURE=latency,bursts selects measurements, MEASURE=scale SCALE=1,100 numbers of ScaledJobs. JSON=file keeps the results. | CONTENDERS=keda has KEDA do the same work instead, which takes minutes to build.
	@go run ./test/bench $(if $(MEASURE),-measure=$(MEASURE)) $(if $(SCALE),-scale=$(SCALE)) $(if $(CONTENDERS),-contenders=$(CONTENDERS)) $(if $(JSON),-json='$(JSON)')

.PHONY: bench-report
bench-report: ## Draw the tables and plots of the pages on performance from the results in docs/contributing/benchmarks.
	@go run ./test/bench/report

.PHONY: bench-compare
bench-compare: ## Compare the Go benchmarks of the hot paths with those of another commit. | REF=main selects the commit, PACKAGES=./internal/jobs packages, COUNT=6 rounds.
	@COUNT='$(value COUNT)' hack/bench-compare.sh $(or $(REF),HEAD) $(PACKAGES)

.PHONY: bench-guard
bench-guard: parts ## Measure again, and fail if the operator is slower than in the committed results. | MEASURE=latency selects measurements.
	@go run ./test/bench -guard $(if $(MEASURE),-measure=$(MEASURE))

.PHONY: soak
soak: parts ## Inject random storms and faults for MINUTES=10. | SEED=n repeats the order of the faults, SUITES=no skips the long tests. | ALERTS=yes injects no faults, and fails if an alert fires; only in MINUTES=90 could all.
	@go run ./test/soak -minutes=$(or $(MINUTES),10) $(if $(SEED),-seed=$(SEED)) $(if $(filter no,$(SUITES)),-suites=false) $(if $(ALERTS),-alerts)

.PHONY: generate
generate: ## Regenerate deep copies, CRD, RBAC, PrometheusRule and dashboards, their copies in the chart, and the pages and tables of the reference.
	$(TOOL) controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(TOOL) controller-gen crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=config/crd/bases
	go run ./hack/trimcrd $(CRD)
	$(TOOL) controller-gen rbac:roleName=manager paths=./cmd/... paths=./internal/controller/... output:rbac:dir=config/rbac
	$(TOOL) kustomize build config/crd > $(CHART)/files/crd.yaml
	cp config/rbac/role.yaml $(CHART)/files/role.yaml
	go run ./hack/reference $(CRD) docs/reference/api.md
	go test ./cmd -run '^TestTheDocumentHasAllFlags$$' -args -update
	go test ./internal/cli/doctor -run '^TestTheDocumentHasTheRulesOfAllKeys$$' -args -update
	go test ./internal/metrics -run '^TestTheDocumentHasAllMetrics$$' -args -update
	go test ./internal/frameworks -run '^(TestTheDocumentHasTheTable|TestThePagesHaveTheManifests)$$' -args -update
	sed -n '/^groups:/,$$p' config/prometheus/rules.yaml > $(CHART)/files/rules.yaml
	{ cat config/prometheus/rule_header.yaml; sed 's/^./  &/' $(CHART)/files/rules.yaml; } > config/prometheus/prometheus_rule.yaml
	go -C hack/dashboards run . "$$PWD/config/grafana"
	cp config/grafana/*.json $(CHART)/files/dashboards

.PHONY: fmt
fmt: ## Format the code.
	$(LINT) fmt

.PHONY: lint
lint: ## Look for faults in the code, its style and its architecture, and in the workflows.
	$(LINT) run
	cd api && go tool -modfile=../hack/tools/golangci/go.mod golangci-lint run
	$(TOOL) actionlint

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in what is shipped. | Without vuln.go.dev, the data is as old as the version in hack/tools/vulncheck.
	@hack/vulncheck.sh

.PHONY: verify
verify: verify-generated lint ## Check that generated files are current, and format, lint, modules and manifests clean.
	$(LINT) fmt --diff
	go mod tidy -diff
	cd api && go mod tidy -diff
	cd test/suites/gitops/engines && go mod tidy -diff && go vet .
	cd test/bench/plot && go mod tidy -diff && go vet . && go test .
	cd hack/dashboards && go mod tidy -diff && go vet . && go test .
	$(TOOL) kustomize build config/crd > /dev/null
	$(TOOL) kustomize build config/default > /dev/null
	$(TOOL) kustomize build config/samples > /dev/null
	$(TOOL) kustomize build config/prometheus > /dev/null
	$(TOOL) kustomize build config/grafana > /dev/null
	$(HELM) lint --strict --quiet --set image.tag=v0.0.0 $(CHART)
	@# Go does not see what the programs read that the test runs, so no result may come from its cache.
	go test -count=1 ./test/suites/install ./test/suites/oncall/rules

.PHONY: verify-generated
verify-generated:
	@before=$$(mktemp -d); trap 'rm -rf "$$before"' EXIT; tar -c api config charts $(GENERATED) | tar -x -C "$$before"; \
	$(MAKE) --no-print-directory generate; \
	for tree in api config charts $(GENERATED); do diff -r "$$before/$$tree" "$$tree" || stale=1; done; \
	[ -z "$${stale:-}" ] || { echo "generated files were not current; they are now"; exit 1; }

##@ Ship it

# A version that nobody set is for the release to find out.
RELEASE = go run ./hack/release -image='$(IMAGE)' $(if $(DOWNLOADS),-downloads='$(DOWNLOADS)') $(if $(filter file,$(origin VERSION)),,-version='$(VERSION)')
OURS    := app.kubernetes.io/name=scaledjob-operator
# Only kubectl version takes one line to say that there is no cluster. A file, unlike a pipe, does not break.
MANIFEST = $(KUBECTL) version -o json > /dev/null; manifest=$$(mktemp); trap 'rm -f "$$manifest"' EXIT; $(RELEASE) manifest > "$$manifest"

.PHONY: release
release: ## Make images, manifests, chart, plugin of kubectl and checksums in dist/, without Docker. | IMAGE=registry/name names the image, VERSION=v1.2.3 the release. DOWNLOADS=https://… is where you publish it.
	@$(RELEASE) release

.PHONY: push
push: ## Make the same, push the images, and have manifests and chart name them by digest. | IMAGE=registry/name names the image.
	@$(RELEASE) push

.PHONY: sign
sign: ## Sign what make push has pushed, and attach provenance and SBOMs. The first time, it compiles cosign for minutes. | KEY=cosign.key signs with a key. Without it, cosign asks who you are, and the signatures are public.
	@KEY='$(KEY)' hack/release/sign.sh

.PHONY: image
image: ## Build the image with Docker. | IMAGE=registry/name names the image, VERSION its tag.
	@$(RELEASE) image

.PHONY: install
install: ## Install or upgrade the CRD in the current cluster. | KUBECTL='kubectl --context=name' selects another.
	$(KUBECTL) apply -k config/crd

.PHONY: uninstall
uninstall: ## Delete the CRD, and with it all ScaledJobs and all their Jobs, running ones too. | It asks for CONFIRM=yes.
	@KUBECTL='$(KUBECTL)' CONFIRM='$(CONFIRM)' hack/release/uninstall.sh

.PHONY: deploy
deploy: ## Install or upgrade the operator, without the CRD. | IMAGE=registry/name names the image, VERSION its tag.
	@$(MANIFEST); $(KUBECTL) apply -f "$$manifest"

.PHONY: undeploy
undeploy: ## Delete the operator. The CRD, the Namespace, all ScaledJobs and all Jobs stay.
	@$(MANIFEST); $(KUBECTL) delete --ignore-not-found -l $(OURS) -f "$$manifest"
	@echo "The CRD, all ScaledJobs and all Jobs stay. So does the Namespace scaledjob-operator-system. If nothing else is in it:"
	@echo "    $(KUBECTL) delete namespace scaledjob-operator-system"
