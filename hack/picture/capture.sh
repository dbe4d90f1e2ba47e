#!/usr/bin/env bash
# Prints what a terminal of 100 by 30 shows near the end of the demo, with its
# colours. Needs tmux. Run it at the root of the repository.
set -euo pipefail

server=scaledjob-picture-$$
terminal() { tmux -L "$server" -f /dev/null "$@" 2>/dev/null; }
running() { terminal has-session; }
trap 'terminal kill-server || true' EXIT

env -u NO_COLOR tmux -L "$server" -f /dev/null new-session -d -x 100 -y 30 'go run ./hack/demo'
until terminal capture-pane -p | grep -q 'operator is started again'; do
	running || { echo 'the demo ended before its last scene' >&2; exit 1; }
	sleep 0.1
done
sleep 1 # the table has caught up, and the burst is not over
terminal capture-pane -e -p

# The demo clears up before it ends.
terminal send-keys q
while running; do sleep 0.1; done
