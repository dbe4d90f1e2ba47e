#!/usr/bin/env bash
# Prints what a terminal shows, with its colours, while messages become Jobs: LPUSH on the left, kubectl on the right. The
# Redis server has its default settings. Needs tmux and redis-cli. Run it at the root of the repository.
set -euo pipefail

folder=$(mktemp -d)
export TMUX_TMPDIR=$folder
# The inner terminal has the panes, and the outer one shows it as a whole.
inner() { tmux -u -L inner -f /dev/null "$@"; }
outer() { tmux -u -L outer -f /dev/null "$@"; }
finish() {
	outer kill-server 2> /dev/null || true
	inner kill-server 2> /dev/null || true
	[ -z "${stage:-}" ] || { kill "$stage" 2> /dev/null && wait "$stage" || true; }
	rm -rf "$folder"
}
trap finish EXIT

go build -o "$folder/stage" ./hack/picture/stage
"$folder/stage" "$folder" >&2 &
stage=$!
until [ -e "$folder/env" ]; do
	kill -0 "$stage" 2> /dev/null || { echo 'the stage did not start' >&2; exit 1; }
	sleep 0.2
done
cat >> "$folder/env" << 'END'
PS1='\[\e[32m\]$\[\e[39m\] '
cd "$(dirname "${BASH_SOURCE[0]}")"
redis-cli() { command redis-cli -h "${REDIS%:*}" -p "${REDIS##*:}" --no-raw "$@"; }
# As "ts %.T" of moreutils: the time of each line.
ts() { while IFS= read -r line; do printf '%(%T)T.%s %s\n' -1 "${EPOCHREALTIME#*[.,]}" "$line"; done; }
clear
END

# shown waits until the screen shows a text.
shown() {
	until outer capture-pane -p | grep -q -- "$1"; do
		kill -0 "$stage" || exit 1
		sleep 0.1
	done
}
type_in() { inner send-keys -t "$1" -l "$2"; inner send-keys -t "$1" Enter; }

shell=(bash --noprofile --rcfile "$folder/env" -i)
inner new-session -d -x 133 -y 24 "${shell[@]}"
inner set -g status off
inner set -g pane-border-style fg=brightblack
inner set -g pane-active-border-style fg=brightblack
outer new-session -d -x 133 -y 24 "env -u TMUX tmux -u -L inner attach"
outer set -g status off
inner split-window -h -l 88 "${shell[@]}"
inner split-window -v -l 14 "${shell[@]}"

type_in 0 'kubectl apply -f emails.yaml'
shown 'created'
type_in 1 'kubectl get sjob -w'
type_in 2 'kubectl get jobs -w | ts %.T'
shown 'True'
type_in 0 'redis-cli config get notify*'
shown '""'
type_in 0 'date +%T.%6N; redis-cli LPUSH emails a b'
shown 'Complete'
until [ "$(outer capture-pane -p | grep -c 'Complete')" -ge 2 ] && outer capture-pane -p | grep -qE '^.*emails +emails, \+1 +0 +0 +0 .*Tracking'; do sleep 0.1; done
inner select-pane -t 0
sleep 0.5
outer capture-pane -e -p
