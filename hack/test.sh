#!/usr/bin/env bash
# Runs the tests and shows each as it ends. "short" runs each promise once, and the representatives of each matrix; "all" runs everything.
# PACKAGES chooses packages, RUN tests by a regular expression, RACE=no leaves out the race detector. Without PACKAGES, "short" leaves it out for
# the suites, which take twice as long with it.
set -euo pipefail
tier=${1:?short or all}
tests=(go tool -modfile=hack/tools/go.mod gotestsum --hide-summary=skipped)
flags=(-timeout=40m)
# On a busy machine, what a test waits for may take long to come. Unless the test says for how long, Gomega waits for one second.
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT=30s
race=()
# The race detector needs a C compiler.
[ "${RACE:-}" != no ] && [ "$(go env CGO_ENABLED)" = 1 ] && race=(-race)
case "$tier" in short | all) ;; *) echo "no such tier: $tier" >&2; exit 2 ;; esac
if [ -n "${RUN:-}" ]; then
	# Whoever names a test wants it, whichever tier it is in.
	flags+=(-run="$RUN")
elif [ "$tier" = short ]; then
	# The page on architecture lists what only "all" runs, with the reasons.
	left=$(awk '/^### Only in make test-all/ {on = 1; next} /^#/ {on = 0} on && /^\| `Test/ {split($0, cell, "`"); print "^" cell[2] "$"}' docs/architecture.md | paste -sd '|')
	flags+=(-short -skip="$left")
fi
# Go shows nothing while it compiles tests.
# shellcheck disable=SC2086 # Several packages are several words, here and below.
imports=$(go list -test -deps -f \
	'{{if and .GoFiles (ne .Name "main") (not .ForTest) (not .Standard)}}{{.ImportPath}}{{end}}' ${PACKAGES:-./...})
# shellcheck disable=SC2086
hack/compile.sh "what the tests import" "" "${race[@]}" $imports
if [ -n "${PACKAGES:-}" ]; then
	echo "Testing $PACKAGES."
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	# shellcheck disable=SC2086 # Several packages are several words.
	"${tests[@]}" --format=testname -- "${flags[@]}" "${race[@]}" -count=1 $PACKAGES | tee "$log"
	if grep -q '^DONE 0 tests' "$log"; then
		echo "no test matches RUN=${RUN:-} in $PACKAGES" >&2
		exit 1
	fi
	exit
fi
# shellcheck disable=SC2046
(cd test/suites/gitops/engines && ../../../../hack/compile.sh "what the engines of Argo CD and Flux import" "" $(go list -f '{{join .Imports " "}}' .))
# Suites run the operator as a process. They do not depend on it as Go sees it, so none of their results may come from the cache. The
# longest come first.
longest=(./test/suites/{behaviour,exactness,faults,security,faults/race})
# The suite on a real node needs root and a release: make e2e-node.
suites=$( { go list "${longest[@]}"; go list ./test/suites/... ./test/kit/{cluster,operator,redistest}/... ./hack/demo/...; } |
	grep -v '/test/suites/node$' | awk '!seen[$0]++')
echo "1 of 2: the packages one by one. Results of what has not changed come from the cache."
listed=$(go list ./... | grep -vE '/test/(suites|kit/(cluster|operator|redistest))|/hack/demo')
# shellcheck disable=SC2086
"${tests[@]}" --format=pkgname-and-test-fails --format-hide-empty-pkg -- "${flags[@]}" "${race[@]}" $listed
if [ "$tier" = short ] && [ ${#race[@]} -gt 0 ]; then
	race=()
	# shellcheck disable=SC2086
	hack/compile.sh "what the suites import" "" $imports
fi
echo "2 of 2: the suites, with a real API server and real Redis servers."
# shellcheck disable=SC2086
"${tests[@]}" --format=testname -- "${flags[@]}" "${race[@]}" -count=1 $suites
if [ "$tier" = all ]; then
	echo "Once more: exactness, with the keys of all ScaledJobs tracked."
	# The naive reconcilers know only notifications.
	"${tests[@]}" --format=testname -- "${flags[@]}" "${race[@]}" -skip=Naive -count=1 ./test/suites/exactness -args -tracking
fi
