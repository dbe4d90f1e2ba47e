#!/usr/bin/env bash
# Runs go build and shows how far it is, on a terminal every second, elsewhere every 15 seconds:
#   hack/compile.sh "the demo" bin/demo ./hack/demo
# With an empty second argument nothing is written, unless there is just one package and that is a program. What follows
# are flags and packages of go build.
set -euo pipefail
what=$1 output=$2
shift 2
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM # Bash lets background processes ignore Ctrl-C.
interval=15
[ -t 1 ] && interval=1

show() {
	local compiled downloaded total state
	compiled=$(grep -cv ' ' "$scratch/log" || true)
	downloaded=$(grep -c '^go: downloading ' "$scratch/log" || true)
	total=$(cat "$scratch/total" 2> /dev/null || true)
	if [ "$compiled" = 0 ] && [ "$downloaded" -gt 0 ]; then
		state="downloading modules, $downloaded so far"
	elif [ -z "$total" ]; then
		state="$compiled packages"
	elif [ "$compiled" -lt "$total" ]; then
		state="$compiled of $total packages"
	else
		state=linking
	fi
	if [ -t 1 ]; then
		printf '\r\033[KCompiling %s: %s, %ds …' "$what" "$state" "$SECONDS"
	else
		echo "Compiling $what: $state, ${SECONDS}s …"
	fi
}

# How many packages there are to compile is known seconds after the first of them are.
count() {
	local before stale
	stale=$(go list -deps -f '{{.StaleReason}}' "$@" 2> /dev/null | grep -vc -e '^$' -e '^not installed but available' || true)
	before=$(grep -cv ' ' "$scratch/log" || true)
	echo $((before + stale)) > "$scratch/total.new"
	mv "$scratch/total.new" "$scratch/total"
}

go build -v ${output:+-o "$output"} "$@" 2> "$scratch/log" &
build=$!
shown=0
while kill -0 "$build" 2> /dev/null; do
	[ "$SECONDS" -ge 1 ] && [ -z "${counting:-}" ] && { count "$@" & counting=$!; }
	if [ $((SECONDS - shown)) -ge "$interval" ]; then
		show
		shown=$SECONDS
	fi
	sleep 0.1
done
[ -t 1 ] && [ "$shown" -gt 0 ] && printf '\r\033[K'
if ! wait "$build"; then
	grep -v -e '^go: downloading ' -e '^[^ ]*$' "$scratch/log" >&2
	exit 1
fi
