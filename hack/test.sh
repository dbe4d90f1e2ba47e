#!/usr/bin/env bash
# Runs the tests: first the packages and then the suites, whatever came of the packages. At the end it prints the slowest
# tests, and what failed in either, as commands that repeat it. "short" runs go test -short, and "all" everything. Both use
# the race detector only where it can find something, "all" in more packages.
# PACKAGES chooses packages, RUN tests by a regular expression, RACE=no leaves out the race detector.
#
# shellcheck disable=SC2086 # Several packages are several words.
set -euo pipefail

refuse() {
	echo "$*" >&2
	exit 2
}

needs_space() {
	[ "$(df -Pk "$scratch" | awk 'END {print $4}')" -ge 500000 ] ||
		refuse "Less than 500 MB are free in ${TMPDIR:-/tmp}, where Go puts what it compiles. TMPDIR selects another folder."
}

# stoppable runs a command in a process group of its own, so that Ctrl-C ends all of it at once.
stoppable() {
	set -m
	"$@" &
	set +m
	group=$!
	local code=0
	wait "$group" || code=$?
	group=
	return "$code"
}

# compile PACKAGES [-race] compiles what the tests of packages import, because Go does not show how far it is with tests. An error is not
# the end: it fails the tests of some packages, and those of others run.
compile() {
	local imports race=${2:-}
	imports=$(go list -e -test -deps -f \
		'{{if and .GoFiles (ne .Name "main") (not .ForTest) (not .Standard)}}{{.ImportPath}}{{end}}' $1)
	[ -z "$imports" ] || stoppable hack/programs.sh compile "what the tests import" /dev/null $race $imports || true
}

# run runs tests, and keeps what go test says of them.
run() {
	local name=$1 format=$2
	shift 2
	stoppable "${gotestsum[@]}" --jsonfile="$scratch/$name.json" --format="$format" --format-hide-empty-pkg \
		--hide-summary="$hidden" -- "${flags[@]}" "$@" || status=1
}

# slowest lists the twenty slowest tests, without those under 0.1 s.
slowest() {
	cat "$scratch"/*.json | "${gotestsum[@]}" tool slowest --num=20 | awk -v module="$module" '
		$3 == "0s" || $3 ~ /^[0-9][0-9]?ms$/ { next }
		!listed++ { print "The slowest tests:" }
		{ printf "  %10s  %s %s\n", $3, "." substr($1, length(module) + 1), $2 }'
}

# failed lists each test that failed, and each package that failed by something else.
failed() {
	awk -v module="$module" -v target="$target" -v node="$node" '
		function value(key) {
			return match($0, "\"" key "\":\"[^\"\\\\]*") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) : ""
		}
		function list(reason) {
			path = "." substr(package, length(module) + 1)
			printf "  make %s", path ~ "/suites/node$" ? node : target " PACKAGES=" path
			if (test) printf " RUN=\047^%s$\047", test
			print reason ? "  # " reason : ""
		}
		{
			action = value("Action"); package = value("Package"); test = value("Test")
			sub("/.*", "", test); where = FILENAME " " package
		}
		match($0, /"Output":"(panic: |fatal error: |signal: |testing: race |testing: invalid )[^"\\]*/) {
			why[where] = substr($0, RSTART + 10, RLENGTH - 10)
		}
		/"FailedBuild":/ { why[where] = "build failed" }
		action == "fail" && test && !known[where, test]++ { tests[where]++; list() }
		action == "fail" && !test && (why[where] || !tests[where]) { list(why[where] ? why[where] : "failed outside its tests") }
	' "$scratch"/*.json
}

minutes() { printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); }

# The linter looks for what go vet finds, and nobody debugs these programs.
flags=(-timeout=40m -vet=off -ldflags=-s) hidden=skipped status=0 group=
case "${1:-}" in
short) target=test node='e2e-node SHORT=yes' flags+=(-short) ;;
all) target=test-all node=e2e-node ;;
*) refuse "usage: hack/test.sh short, or hack/test.sh all" ;;
esac
[ -z "${RUN:-}" ] || { flags+=(-run="$RUN"); hidden=none; }
module=$(go list -m)
gotestsum=(go tool -modfile=hack/tools/go.mod gotestsum)
race=-race # It needs a C compiler.
if [ "${RACE:-}" = no ] || [ "$(go env CGO_ENABLED)" != 1 ]; then race=; fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exec 2> /dev/null; [ -z "$group" ] || kill -KILL -- "-$group" || true; wait; exit 130' INT TERM HUP
# On a busy machine, what a test waits for may take long. Unless the test says how long, Gomega waits for one second.
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT=30s
export GOTMPDIR=$scratch # Go leaves nothing elsewhere when it is killed.
needs_space

unknown=$(go list -e -f '{{if not (or .Name .InvalidGoFiles)}}{{.ImportPath}}{{end}}' ${PACKAGES:-./...})
[ -z "$unknown" ] || refuse "No such package: $unknown."
packages=$(go list -e ${PACKAGES:-./...})
# The suite on a real node needs root and a release: make e2e-node.
[ -n "${PACKAGES:-}" ] || packages=$(grep -v '/test/suites/node$' <<< "$packages")
[ -n "$packages" ] || refuse "No package matches PACKAGES=$PACKAGES"
choose() { grep -E "$@" <<< "$packages" || true; }
suite='/test/suites/|/test/kit/(cluster|operator|redistest)|/hack/demo'
longest='/test/suites/(behaviour|exactness|faults|faults/race|kueue|memory|topology|why)$'
suites=$(choose "$longest"; choose "$suite" | grep -vE "$longest" || true)
packages=$(choose -v "$suite")
# Goroutines share something in these packages, and in the operator that these suites run.
shared='/internal/(keyspace|keyspace/.*|redis/(connection|topology|resp)|queue|jobcontrol|enqueue|leadership|metrics|controller)$'
raced=
if [ "$target" = test-all ]; then
	shared='/(cmd|internal)(/|$)'
	raced=$(grep -E '/test/suites/(behaviour|exactness|faults|faults/race|security|topology)$' <<< "$suites" || true)
	suites=$(grep -vxF "${raced:-none}" <<< "$suites" || true)
fi
with=$(choose "$shared") without=$(choose -v "$shared")
format=pkgname-and-test-fails fresh=
[ -z "${PACKAGES:-}" ] || format=testname fresh=-count=1

[ -z "$with$raced" ] || compile "$with $raced" $race
if [ -n "$with" ]; then
	echo "The packages${race:+ with the race detector}. Results of what has not changed come from the cache."
	run 1-shared "$format" $race $fresh $with
fi
[ -z "$without$suites" ] || compile "$without $suites"
if [ -n "$without" ]; then
	echo "The packages without the race detector."
	run 2-others "$format" $fresh $without
fi
half=$SECONDS
# The suites run the operator as a process. They do not depend on it as Go sees it, so none of their results may come from
# the cache. They mostly wait, so two more run at a time than there are processors.
alone="-count=1 -p $(($(getconf _NPROCESSORS_ONLN) + 2))"
if [ -n "$raced" ]; then
	echo "The suites${race:+ with the race detector}, with a real API server and real Redis servers."
	run 3-raced testname $race $alone $raced
fi
if [ -n "$suites" ]; then
	echo "The suites without the race detector, with a real API server and real Redis servers."
	run 4-suites testname $alone $suites
fi

printf '\nThe packages took %s, the suites %s.\n' "$(minutes "$half")" "$(minutes $((SECONDS - half)))"
slowest || true
if [ "$status" != 0 ]; then
	printf '\nThis failed:\n'
	failed | grep . || echo "  No test: see the errors above."
	needs_space
elif ! grep -qE '"Action":"(pass|fail)",.*"Test":"' "$scratch"/*.json; then
	grep -q '"Action":"skip",.*"Test":"' "$scratch"/*.json ||
		refuse "No test${RUN:+ matches RUN=$RUN} in ${PACKAGES:-any package}."
	[ -z "${RUN:-}" ] || refuse "make $target skips every test that matches RUN=$RUN, for the reasons above."
fi
passed=$(cat "$scratch"/*.json | grep -c '"Action":"pass",.*"Test":"[^"/]*"' || true)
[ "$status" != 0 ] || echo "Tests passed: $passed."
exit "$status"
