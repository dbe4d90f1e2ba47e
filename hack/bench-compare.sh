#!/usr/bin/env bash
# Compares the Go benchmarks of this tree with those of another commit: hack/bench-compare.sh REF [package…]. COUNT says how often each runs.
set -euo pipefail
cd "$(dirname "$0")/.."
ref=${1:?the commit to compare with, such as main or v1.0.0}
shift
commit=$(git rev-parse --verify --quiet "$ref^{commit}") || { echo "no such commit: $ref" >&2; exit 2; }
folder=$(mktemp -d)
trap 'git worktree remove --force "$folder/tree" > /dev/null 2>&1 || true; rm -rf "$folder"' EXIT
git worktree add --quiet --detach "$folder/tree" "$commit"
# run writes the results of the benchmarks in a tree to a file. They take turns, so that load on the machine meets both.
run() {
	(cd "$1" && go test -run '^$' -bench . -benchmem -benchtime 200ms "${@:3}") >> "$2"
}
packages=("$@")
if [ ${#packages[@]} = 0 ]; then
	mapfile -t packages < <(git grep -l '^func Benchmark' -- 'internal/*_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|')
fi
# The other commit may lack a package.
there=()
for package in "${packages[@]}"; do
	[ -d "$folder/tree/$package" ] && there+=("$package")
done
rounds=${COUNT:-6}
for round in $(seq "$rounds"); do
	echo "round $round of $rounds" >&2
	[ ${#there[@]} = 0 ] || run "$folder/tree" "$folder/before" "${there[@]}"
	run . "$folder/after" "${packages[@]}"
done
go tool -modfile=hack/tools/go.mod benchstat "$ref=$folder/before" "this tree=$folder/after"
