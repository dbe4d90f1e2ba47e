#!/usr/bin/env bash
# Puts programs that tests and the demo run into the cache folder, once per version, and prints the name and the path of
# each. Progress goes to standard error.
#
#   hack/programs.sh etcd kubectl                 these programs
#   hack/programs.sh                              those that make test needs; it prints their versions instead
#   hack/programs.sh compile NAME FILE ARGUMENTS… go build -o FILE ARGUMENTS…, which the progress calls NAME
#
# A program comes from the folder KUBEBUILDER_ASSETS, the cache, its publisher, or the compiler, in this order. K8S is the
# minor version of Kubernetes. PARTS=compile downloads no program, and PARTS_MIRROR is where to download from instead of
# the publishers. REDIS_SERVER is the path of a redis-server, or valkey. SCALEDJOB_CACHE is another cache folder.
set -euo pipefail

say() { echo "$*" >&2; }

fail() {
	say "$*"
	exit 1
}

sha256() {
	if command -v sha256sum > /dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

# lock waits until no other process has the lock of this name. It ends with unlock, or with the process. macOS has no
# flock, so two processes may do the same there.
lock() {
	exec 9> "$cache/$1.lock"
	if command -v flock > /dev/null && ! flock --nonblock 9; then
		say "Waiting for another process that makes $1."
		flock 9
	fi
}

unlock() { exec 9>&-; }

usable() { [ -f "$1" ] && [ -s "$1" ] && [ -x "$1" ]; }

# once FOLDER PROGRAM COMMAND… sets path to a program in a folder of the cache. If it is not there, the command puts it
# into the folder $new, which gets its name when it is complete.
once() {
	local dir=$cache/$1
	path=$dir/$2
	usable "$path" && return
	lock "$1"
	if ! usable "$path"; then
		new=$dir.unfinished
		command -v flock > /dev/null || new=$new.$$
		rm -rf "$new"
		mkdir "$new"
		"${@:3}" >&2
		usable "$new/$2" || fail "There is no program $new/$2."
		rm -rf "$dir"
		mv "$new" "$dir"
	fi
	unlock
}

# follow counts the modules and packages that the go command names, and says how long the rest of them takes, on a
# terminal at once and elsewhere every 15 seconds. It passes on what else the go command says.
follow() {
	local what=$1 total=$2 count=0 begin=$SECONDS shown=$SECONDS line text
	while IFS= read -r line; do
		case $line in
		'go: downloading '*) ;;
		*[[:space:]]*)
			say "$line"
			continue
			;;
		esac
		count=$((count + 1)) text="$what: $count"
		if [ "$total" -gt "$count" ]; then
			text="$text of $total, about $(((SECONDS - begin) * (total - count) / count)) s left"
		elif [ "$total" != 0 ]; then
			text="$what: linking"
		fi
		if [ -t 2 ]; then
			printf '\r\033[K%s' "$text" >&2
		elif [ $((SECONDS - shown)) -ge 15 ]; then
			shown=$SECONDS
			say "$text"
		fi
	done
	[ ! -t 2 ] || printf '\r\033[K' >&2
}

# compile NAME FILE ARGUMENTS… is go build -o FILE ARGUMENTS… with progress. With less garbage collection, the compiler
# needs a twelfth less time.
compile() {
	local name=$1 file=$2 list
	shift 2
	list=$(mktemp "${GOTMPDIR:-${TMPDIR:-/tmp}}/packages.XXXXXX")
	GOGC=400 go list -deps -f '{{if and .StaleReason (ne .StaleReason "not installed but available in build cache")}}{{.ImportPath}}{{end}}' \
		"$@" 2>&1 > "$list" | follow "Downloading modules of $name" 0
	local stale
	stale=$(grep -c . "$list" || true)
	rm "$list"
	if [ "$stale" -gt 100 ]; then say "Compiling $name: $stale packages."; fi
	GOGC=400 go build -v -o "$file" "$@" 2>&1 | follow "Compiling $name" "$stale"
}

# locate NAME sets what a program is compiled from: its package, its version, and the folder of the module that requires
# this version of the module that has the program.
locate() {
	module='' tags=''
	case $1 in
	etcd) folder=tools/kubernetes/$minor module=go.etcd.io/etcd/server/v3 package=$module ;;
	kube-apiserver | kube-controller-manager | kube-scheduler | kube-proxy | kubelet | kubectl)
		folder=tools/kubernetes/$minor module=k8s.io/kubernetes package=$module/cmd/$1
		;;
	coredns) folder=tools/coredns module=github.com/coredns/coredns package=. ;;
	keda-operator) folder=tools/keda module=github.com/kedacore/keda/v2 package=$module/cmd/operator ;;
	kueue) folder=tools/kueue module=sigs.k8s.io/kueue package=$module/cmd/kueue ;;
	krew) folder=tools/krew module=sigs.k8s.io/krew package=$module/cmd/krew ;;
	gitops-engines)
		folder=../test/suites/gitops/engines package=.
		version=$(cat "$hack/$folder"/* | sha256)
		return
		;;
	prometheus | promtool)
		# Without most kinds of service discovery, it does not need the libraries of the clouds.
		tags=remove_all_sd folder=tools/prometheus module=github.com/prometheus/prometheus package=$module/cmd/$1
		;;
	*) fail "There is no program $1." ;;
	esac
	version=$(awk -v module="$module" '$1 == "require" {$1 = $2; $2 = $3} $1 == module {print $2}' "$hack/$folder/go.mod")
	[ -n "$version" ] || fail "hack/$folder/go.mod does not require $module."
}

# build NAME compiles a program, and adds the files of its module that its users need.
build() (
	# Tests are built without -trimpath, and packages that both import are then compiled once. Nobody debugs these programs.
	# Without its version, a program of Kubernetes calls itself v0.0.0, and clients act on that.
	local component=k8s.io/component-base/version number=${version#v} flags
	flags="-w -X $component.gitVersion=$version -X $component.gitMajor=${number%%.*} -X $component.gitMinor=${minor#*.}"
	[ "$module" = k8s.io/kubernetes ] || flags=-w
	cd "$hack/$folder"
	[ "$1" != coredns ] || export CGO_ENABLED=0 # Its image holds no C library.
	compile "$1 $version" "$new/$1" -buildvcs=false -tags="$tags" -ldflags="$flags" \
		-gcflags=k8s.io/kubernetes/...=-dwarf=false "$package"
	case $1 in
	keda-operator) cp -R "$(go list -m -f '{{.Dir}}' "$module")/config/crd/bases" "$new/crds" ;;
	kueue)
		go tool -modfile="$hack/tools/go.mod" kustomize build "$(go list -m -f '{{.Dir}}' "$module")/config/default" > "$new/manifests.yaml"
		;;
	esac
	chmod -R u+w "$new"
)

# fetch ADDRESS prints what is there. It gives up if connecting takes 3 seconds, or if nothing comes for 10.
fetch() {
	local shown=--silent
	[ ! -t 2 ] || shown=--progress-bar
	curl --fail --location --show-error "$shown" --proto '=https' --connect-timeout 3 --speed-limit 1 --speed-time 10 \
		--max-filesize 1000000000 --retry 1 "$1"
}

# missed HOST CODE leaves a host alone for the rest of this run, unless it has answered that there is no such file.
missed() { [ "$2" = 22 ] || unreachable="$unreachable $1 "; }

# download NAME downloads a program that is published, and keeps it only if its SHA-256 is right.
download() {
	local platform=$os/$arch file sums host digest got trust='checking the SHA-256 in the source'
	case $1-$platform in
	etcd-linux/amd64 | etcd-linux/arm64)
		file=github.com/etcd-io/etcd/releases/download/$version/etcd-$version-$os-$arch.tar.gz sums=${file%/*}/SHA256SUMS
		;;
	kubelet-linux/amd64 | kubelet-linux/arm64 | kube-*-linux/amd64 | kube-*-linux/arm64 | kubectl-*/amd64 | kubectl-*/arm64)
		file=dl.k8s.io/$version/bin/$platform/$1 sums=$file.sha256
		;;
	*) return 1 ;;
	esac
	[ -z "${PARTS:-}" ] && command -v curl > /dev/null || return 1
	host=${mirror#https://}$file host=${host%%/*}
	host=${host##*@} # without credentials
	case $unreachable in *" $host "*) return 1 ;; esac
	digest=$(awk -v file="$file" '$2 == file {print $1}' "$hack/digests.txt") || fail "$hack/digests.txt can't be read."
	if [ -z "$digest" ]; then
		trust='trusting its checksum'
		sums=$(fetch "$mirror$sums") || { missed "$host" $?; return 1; }
		digest=$(awk -v name="${file##*/}" 'NF == 1 || $2 == name || $2 == "*" name {print $1; exit}' <<< "$sums")
	fi
	[ -n "$digest" ] || { say "There is no SHA-256 of $1 on $host." && return 1; }
	say "Downloading $1 $version from $host, $trust."
	fetch "$mirror$file" > "$new/download" || { missed "$host" $?; return 1; }
	got=$(sha256 < "$new/download")
	if [ "$got" != "$digest" ]; then
		say "$1 from $host can't be used: its SHA-256 is $got instead of $digest."
		return 1
	fi
	case $file in
	*.tar.gz) tar -xzf "$new/download" -C "$new" --strip-components=1 "etcd-$version-$os-$arch/$1" && rm "$new/download" ;;
	*) chmod +x "$new/download" && mv "$new/download" "$new/$1" ;;
	esac
}

provide() {
	download "$1" && return
	rm -rf "${new:?}"/*
	build "$1"
}

# debian FOLDER PACKAGES… unpacks packages of Debian, and those that they need and the system lacks. Nothing is installed,
# so that no root is needed and no service starts.
debian() {
	local dir=$1 apt=$1/.apt list=/etc/apt/sources.list file
	shift
	mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
	# Valkey may be in the backports of the release only. A source that is named twice is an error.
	if [ "$*" = valkey-tools ] && [ "$ID" = debian ] && ! grep -qs "$VERSION_CODENAME-backports" $list $list.d/*; then
		{
			cat $list 2> /dev/null || true
			echo
			echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $VERSION_CODENAME-backports main"
		} > "$apt/sources.list"
		list=$apt/sources.list
	fi
	# Run by root, apt would else download as a user that can't enter the folder.
	local options=(--quiet --yes -o Dir::State="$apt/state" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$apt/cache"
		-o Dir::Etc::sourcelist="$list" -o Debug::NoLocking=true -o APT::Sandbox::User=root
		-o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o Acquire::Retries=1)
	say "Fetching $* with apt-get."
	{
		apt-get "${options[@]}" update
		apt-get "${options[@]}" install --download-only --reinstall --no-install-recommends "$@"
	} > "$apt/log" 2>&1 || fail "$(grep -E '^(E:|W: Failed to fetch)' "$apt/log" || cat "$apt/log")"
	for file in "$apt"/cache/archives/*.deb; do
		dpkg-deb --extract "$file" "$dir"
	done
	rm -rf "$apt"
}

debian_node() { debian "$new" "$@"; }

# unpack KIND puts the server of Debian's package redis-tools or valkey-tools into $new, with a script that starts it with
# the libraries next to it. The package has the server as a checker: it is one program that acts by the name it is called.
unpack() {
	debian "$new/debian" "$1-tools"
	ln -s "$1-check-rdb" "$new/debian/usr/bin/$1-server"
	local libraries
	# shellcheck disable=SC2016 # The script itself finds the folder, because it moves when it is complete.
	libraries=$(cd "$new" && find debian -type d -name '*-linux-gnu*' -path '*lib/*' -printf '$here/%p:')
	cat > "$new/$1-server" <<- SCRIPT
		#!/bin/sh
		here=\$(dirname "\$0")
		LD_LIBRARY_PATH="${libraries%:}" exec "\$here/debian/usr/bin/$1-server" "\$@"
	SCRIPT
	chmod +x "$new/$1-server"
}

# server sets path to the server of Redis or Valkey.
server() {
	local kind=redis
	case ${REDIS_SERVER:-} in
	'') path=$(command -v redis-server) && return ;;
	valkey) kind=valkey ;;
	/*)
		path=$REDIS_SERVER
		[ -x "$path" ] || fail "REDIS_SERVER=$path is not a program."
		return
		;;
	*/*) fail "REDIS_SERVER=$REDIS_SERVER is a relative path, and each test runs in a folder of its own." ;;
	*)
		path=$(command -v "$REDIS_SERVER") || fail "REDIS_SERVER=$REDIS_SERVER is not a program."
		return
		;;
	esac
	command -v apt-get dpkg-deb > /dev/null ||
		fail "There is no $kind-server: install Redis 7.0 or Valkey 7.2, or newer, or set REDIS_SERVER=/path/to/$kind-server."
	once "$kind-server-$release-$arch" "$kind-server" unpack "$kind"
}

# operator NAME sets path to the operator, built from this source, in a folder of this clone that processes share. Folders
# that nobody has used for a week are removed.
operator() {
	local folder
	folder=operator-$(sha256 <<< "$hack")${1#operator}
	path=$cache/$folder/operator
	lock "$folder"
	mkdir -p "$cache/$folder"
	touch "$cache/$folder"
	# Another process may remove them too.
	find "$cache" -maxdepth 1 -type d -name 'operator-*' -mtime +7 -exec rm -rf {} + 2> /dev/null || true
	# What git says of the source must not have the file replaced while tests run.
	local flags=(-buildvcs=false -ldflags=-w)
	case $1 in *-quick*) flags+=(-tags=quickretry) ;; esac
	case $1 in *-race) flags+=(-race) ;; esac
	go -C "$hack/.." build -o "$path" "${flags[@]}" ./cmd >&2
	unlock
}

# get NAME sets path to a program.
get() {
	case $1 in
	redis-server) server ;;
	operator | operator-race | operator-quick | operator-quick-race) operator "$1" ;;
	node) # the folder with what a node takes from Debian
		once "node-$release-$arch" usr/bin/containerd debian_node containerd runc \
			containernetworking-plugins nftables iproute2 redis-tools
		path=$cache/node-$release-$arch
		;;
	*)
		path=${KUBEBUILDER_ASSETS:-}/$1
		[ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$path" ] && return
		locate "$1"
		once "$1-$version-$os-$arch" "$1" provide "$1"
		;;
	esac
}

# show NAME prints the version of a program. One that does not run is cut off, or for another machine.
show() {
	local version=--version folder
	[ "$1" != kubectl ] || version='version --client'
	# shellcheck disable=SC2086 # Two words.
	"$path" $version 2> /dev/null && return
	case $path in "$cache"/*) ;; *) fail "$path does not run." ;; esac
	folder=${path#"$cache/"}
	fail "$path does not run. Remove the folder $cache/${folder%%/*}, and the same command makes it again."
}

hack=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" = compile ]; then
	compile "${@:2}"
	exit
fi
cache=${SCALEDJOB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/scaledjob-operator}
case $cache in /*) ;; *) fail "$cache is a relative path, and each test runs in a folder of its own." ;; esac
mkdir -p "$cache" || fail "SCALEDJOB_CACHE selects another folder; about 500 MB are needed."
cache=$(cd "$cache" && pwd)
minor=${K8S:-1.37}
[[ $minor =~ ^[0-9]+\.[0-9]+$ && -f $hack/tools/kubernetes/$minor/go.mod ]] ||
	fail "K8S=$minor is not a version to run; choose one of $(cd "$hack/tools/kubernetes" && echo *)."
case ${PARTS:-} in '' | compile) ;; *) fail "PARTS=$PARTS is unknown: PARTS=compile downloads nothing." ;; esac
mirror=${PARTS_MIRROR:+${PARTS_MIRROR%/}/} unreachable=
mirror=${mirror:-https://}
[[ $mirror =~ ^https://([^/?#]+/[^?#]*)?$ ]] || fail "PARTS_MIRROR is not an address such as https://mirror.example/path."
# The Go of the product compiles these programs too, so that Go's cache serves both.
GOTOOLCHAIN=$(go -C "$hack/.." env GOVERSION)
export GOTOOLCHAIN GOWORK=off
os=$(go env GOOS) arch=$(go env GOARCH) ID=unknown VERSION_ID='' VERSION_CODENAME=''
# shellcheck source=/dev/null
[ ! -f /etc/os-release ] || . /etc/os-release
release=$ID-$VERSION_ID

if [ $# -gt 0 ]; then
	for name in "$@"; do
		get "$name"
		echo "$name $path"
	done
	exit
fi
versions=
for name in etcd kube-apiserver kube-controller-manager kubectl redis-server; do
	get "$name"
	said=$(show "$name")
	case $name in
	kube-apiserver) versions=$said ;;
	redis-server) versions="$versions, $(sed -n 's/^\([A-Za-z]*\) server v=\([^ ]*\).*/\1 \2/p' <<< "$said")" ;;
	esac
done
echo "$versions"
