"""Takes messages from the list QUEUE of the Redis server REDIS (host:port), and processes them. JOB is the name of its
Job. It ends after one message, or with UNTIL_EMPTY=yes when there are no more."""
import os
import signal
import socket
import sys
import time

QUEUE, JOB, UNTIL_EMPTY = os.environ["QUEUE"], os.environ["JOB"], os.environ.get("UNTIL_EMPTY")
PROCESSING, TRIES, FAILED = QUEUE + ":processing", QUEUE + ":processing:tries", QUEUE + ":failed"
LEASE_SECONDS = 600  # longer than a Job may run: activeDeadlineSeconds of the Job
MOST_TRIES = 3
MESSAGE_FAILED = 65  # the exit code for which Kubernetes does not try again


def work(message):
    """The work: replace it. Here it sleeps for as many seconds as the message says."""
    print("processing", message, flush=True)
    time.sleep(float(message))


class Stopped(Exception):
    """SIGTERM has interrupted the work."""


stopping = working = False


def stop(*_):
    global stopping
    stopping = True
    if working:
        raise Stopped


def lease_of(message):
    return f"{PROCESSING}:lease:{message}"


def lease(message):
    """Reserves a message for this Job. It fails if another Job holds the message or has finished it."""
    redis("SET", lease_of(message), JOB, "NX", "EX", LEASE_SECONDS)
    if redis("GET", lease_of(message)) != JOB:
        return False
    if redis("LPOS", PROCESSING, message) is None:
        release(message)
        return False
    return True


RELEASE = """
if redis.call("LREM", KEYS[1], 1, ARGV[1]) == 1 and KEYS[4] then redis.call("RPUSH", KEYS[4], ARGV[1]) end
redis.call("DEL", KEYS[2])
redis.call("HDEL", KEYS[3], ARGV[1])
"""


def release(message, *to):
    """Removes a message from the list in progress, and adds it to another list if one is named, in one step."""
    redis("EVAL", RELEASE, 3 + len(to), PROCESSING, lease_of(message), TRIES, *to, message)


def take():
    """Returns a message that this Job holds: one whose worker died, or the next one. None if there was none."""
    for message in redis("LRANGE", PROCESSING, 0, -1):
        if lease(message):
            return message
    message = redis("BLMOVE", QUEUE, PROCESSING, "RIGHT", "LEFT", 2)
    return message if message is not None and lease(message) else None


def process(message):
    global working
    try:
        if redis("HINCRBY", TRIES, message, 1) > MOST_TRIES:
            raise RuntimeError("its workers died")
        working = True
        if stopping:
            raise Stopped
        work(message)
        working = False
    except Stopped:
        release(message, QUEUE)
        sys.exit(143)  # as a process that SIGTERM ends
    except Exception as error:
        working = False
        print("failed:", message, error, file=sys.stderr)
        release(message, FAILED)
        sys.exit(MESSAGE_FAILED)
    release(message)


def main():
    signal.signal(signal.SIGTERM, stop)
    processed = False
    while not stopping:
        message = take()
        if message is not None:
            process(message)
            if not UNTIL_EMPTY:
                return
            processed = True
        elif redis("LLEN", QUEUE) == 0 and (processed or redis("LLEN", PROCESSING) == 0):
            return
        # Otherwise a worker may have died: wait until its lease ends.
    sys.exit(143)


# A small Redis client. Use a library instead, such as redis-py.
HOST, PORT = os.environ["REDIS"].rsplit(":", 1)
connection = socket.create_connection((HOST, int(PORT)))
replies = connection.makefile("rb")


def redis(*words):
    encoded = [str(word).encode() for word in words]
    connection.sendall(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded))
    return reply()


def reply():
    line = replies.readline().decode().rstrip("\r\n")
    kind, rest = line[:1], line[1:]
    if kind == "$":
        return None if rest == "-1" else replies.read(int(rest) + 2)[:-2].decode()
    if kind == "*":
        return None if rest == "-1" else [reply() for _ in range(int(rest))]
    if kind == ":":
        return int(rest)
    if kind == "+":
        return rest
    raise ConnectionError(rest or "the server has closed the connection")


if __name__ == "__main__":
    main()
