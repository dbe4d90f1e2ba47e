#!/usr/bin/env bash
# Runs the tests and shows each as it ends. "short" runs each promise once, and the representatives of each matrix; "all" runs everything.
# PACKAGES chooses packages, RUN tests by a regular expression, RACE=no leaves out the race detector.
set -euo pipefail
tier=${1:?short or all}
tests=(go tool -modfile=hack/tools/go.mod gotestsum --hide-summary=skipped)
flags=(-timeout=40m)
# The race detector needs a C compiler.
[ "${RACE:-}" != no ] && [ "$(go env CGO_ENABLED)" = 1 ] && flags+=(-race)
[ -n "${RUN:-}" ] && flags+=(-run="$RUN")
if [ "$tier" = short ]; then
	# The page on architecture lists what only "all" runs, with the reasons.
	left=$(awk '/^### Only in make test-all/ {on = 1; next} /^#/ {on = 0} on && /^\| `Test/ {split($0, cell, "`"); print "^" cell[2] "$"}' docs/architecture.md | paste -sd '|')
	flags+=(-short -skip="$left")
fi
if [ -n "${PACKAGES:-}" ]; then
	echo "Testing $PACKAGES."
	# shellcheck disable=SC2086 # Several packages are several words.
	exec "${tests[@]}" --format=testname -- "${flags[@]}" -count=1 $PACKAGES
fi
# Suites run the operator as a process. They do not depend on it as Go sees it, so none of their results may come from the cache. The
# longest come first.
suites=(./test/suites/{behaviour,exactness,faults,security,faults/race,api,docs} ./test/kit/{cluster,operator,redistest}/... ./hack/demo/...)
echo "1 of 2: the packages one by one. Results of what has not changed come from the cache."
listed=$(go list ./... | grep -vE '/test/(suites|kit/(cluster|operator|redistest))|/hack/demo')
# shellcheck disable=SC2086
"${tests[@]}" --format=pkgname-and-test-fails --format-hide-empty-pkg -- "${flags[@]}" $listed
echo "2 of 2: the suites, with a real API server and real Redis servers."
exec "${tests[@]}" --format=testname -- "${flags[@]}" -count=1 "${suites[@]}"
