#!/bin/sh
# Takes messages from the list QUEUE of the Redis server REDIS (host:port), and processes them. JOB is the name of its
# Job. It ends after one message, or with UNTIL_EMPTY=yes when there are no more. It needs redis-cli 7 or newer.
set -eu

processing="$QUEUE:processing" tries="$QUEUE:processing:tries" failed="$QUEUE:failed"
lease_seconds=600 # longer than a Job may run: activeDeadlineSeconds of the Job
most_tries=3
message_failed=65 # the exit code for which Kubernetes does not try again

# The work: replace it. Here it sleeps for as many seconds as the message says. exec makes SIGTERM reach it.
work() {
	echo "processing $1"
	exec sleep "$1"
}

stopping= working=
trap 'stopping=yes; [ -z "$working" ] || kill "$working"' TERM

redis() { redis-cli -e -h "${REDIS%:*}" -p "${REDIS##*:}" "$@"; }

# lease reserves a message for this Job. It fails if another Job holds the message or has finished it.
lease() {
	redis SET "$processing:lease:$1" "$JOB" NX EX "$lease_seconds" > /dev/null
	[ "$(redis GET "$processing:lease:$1")" = "$JOB" ] || return 1
	[ -n "$(redis LPOS "$processing" "$1")" ] || { release "$1"; return 1; }
}

# release removes a message from the list in progress, and adds it to another list if one is named, in one step.
release() {
	redis EVAL '
		if redis.call("LREM", KEYS[1], 1, ARGV[1]) == 1 and KEYS[4] then redis.call("RPUSH", KEYS[4], ARGV[1]) end
		redis.call("DEL", KEYS[2])
		redis.call("HDEL", KEYS[3], ARGV[1])
	' $((2 + $#)) "$processing" "$processing:lease:$1" "$tries" ${2:+"$2"} "$1" > /dev/null
}

# abandoned prints a message in progress that no other Job holds: its worker died.
abandoned() {
	redis LRANGE "$processing" 0 -1 | while read -r each; do
		if lease "$each"; then
			printf '%s\n' "$each"
			break
		fi
	done
}

fail() {
	echo "failed: $1" >&2
	release "$1" "$failed"
	exit "$message_failed"
}

process() {
	count=$(redis HINCRBY "$tries" "$1" 1)
	[ "$count" -le "$most_tries" ] || fail "$1"
	code=0
	work "$1" &
	working=$!
	[ -z "$stopping" ] || kill "$working"
	wait "$working" || code=$?
	if [ -n "$stopping" ] && [ "$code" -gt 128 ]; then # SIGTERM has interrupted the wait
		code=0
		wait "$working" || code=$?
	fi
	working=
	if [ "$code" -eq 0 ]; then
		release "$1"
	elif [ -n "$stopping" ]; then
		release "$1" "$QUEUE"
		exit 143 # as a process that SIGTERM ends
	else
		fail "$1"
	fi
}

processed=
while [ -z "$stopping" ]; do
	message=$(abandoned)
	if [ -z "$message" ]; then
		message=$(redis BLMOVE "$QUEUE" "$processing" RIGHT LEFT 2)
		if [ -z "$message" ]; then
			held=$(redis LLEN "$processing")
			[ -z "$processed" ] && [ "$held" -gt 0 ] || exit 0
			continue # a worker may have died: wait until its lease ends
		fi
		lease "$message" || continue
	fi
	process "$message"
	[ -n "${UNTIL_EMPTY:-}" ] || exit 0
	processed=yes
done
exit 143
