#!/usr/bin/env bash
# Builds a release of this tree and one of the previous version, and tests both on a real node. "short" and "all" are
# those of hack/test.sh, and so is RUN. E2E_NODE=kind takes the node from kind and Docker; otherwise the script runs
# containerd and a kubelet itself, as root.
set -euo pipefail
tier=${1:?short or all}
cd "$(dirname "$0")/.."
# What upgrades start from: the last version whose manifests had the CRD in the same bundle as the operator.
previous=108db9f217173127ed00aacf6c4b81e8867dfd19

echo "1 of 4: the programs of a node."
mkdir -p bin
if [ "${E2E_NODE:-}" != kind ]; then
	go run ./test/kit/node/prepare || { echo "With E2E_NODE=kind, the tests need kind and Docker instead." >&2; exit 1; }
	kubectl=$(hack/programs.sh kubectl)
	ln -sf "${kubectl#* }" bin/kubectl
fi

echo "2 of 4: a release of this tree."
go run ./hack/release | sed '/^$/,$d' # Without what to do next.

echo "3 of 4: the previous version, $previous."
old=bin/previous
if [ "$(cat "$old/commit" 2>/dev/null)" != "$previous" ]; then
	git cat-file -e "$previous^{commit}" 2>/dev/null || git fetch --quiet --depth=1 origin "$previous"
	rm -rf "$old" && mkdir -p "$old/source"
	git archive "$previous" | tar -x -C "$old/source"
	version=v0.0.0-g${previous:0:12}
	go run ./hack/release -source="$old/source" -version="$version" -dist="$old" -platform="linux/$(go env GOARCH)" archive
	go run ./hack/release -source="$old/source" -version="$version" manifest > "$old/install.yaml"
	rm -rf "$old/source"
	echo "$previous" > "$old/commit"
fi

echo "4 of 4: the tests. A node starts first, which takes about a minute."
go build -modfile=hack/tools/helm/go.mod -o bin/helm helm.sh/helm/v3/cmd/helm
PATH=$PWD/bin:$PATH E2E_NODE=${E2E_NODE:-isolated} PACKAGES=./test/suites/node RACE=no exec hack/test.sh "$tier"
