#!/usr/bin/env bash
# Deletes the CRD, if CONFIRM is yes. Before that, it counts what goes with it. KUBECTL is the command of kubectl.
set -euo pipefail

crd=scaledjobs.batch.miracle.dev
count() { # what, and arguments of kubectl get
	local names
	names=$($KUBECTL get "$@" --all-namespaces --output=name) || return
	grep -c . <<< "$names" || true
}

installed=$($KUBECTL get customresourcedefinitions $crd --ignore-not-found --output=name)
if [ -z "$installed" ]; then
	echo "The CRD is not installed."
	exit 0
fi
scaledjobs=$(count $crd)
jobs=$(count jobs --selector=batch.miracle.dev/scaledjob)
echo "Deleting the CRD deletes all ScaledJobs ($scaledjobs) and all their Jobs ($jobs), running ones too."
if [ "$CONFIRM" != yes ]; then
	echo "To do it: make uninstall CONFIRM=yes" >&2
	exit 1
fi
$KUBECTL delete customresourcedefinitions $crd
