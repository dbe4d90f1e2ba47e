// Takes messages from the list QUEUE of the Redis server REDIS (host:port), and processes them. JOB is the name of its
// Job. It ends after one message, or with UNTIL_EMPTY=yes when there are no more.
import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const { QUEUE, JOB, REDIS, UNTIL_EMPTY } = process.env
const PROCESSING = `${QUEUE}:processing`, TRIES = `${QUEUE}:processing:tries`, FAILED = `${QUEUE}:failed`
const leaseSeconds = 600 // longer than a Job may run: activeDeadlineSeconds of the Job
const mostTries = 3
const messageFailed = 65 // the exit code for which Kubernetes does not try again

// The work: replace it, and let it end when the signal is aborted. Here it sleeps for as many seconds as the message says.
async function work (message, signal) {
  console.log('processing', message)
  if (!(Number(message) >= 0)) throw new Error('not a number of seconds')
  await sleep(1000 * message, null, { signal })
}

const stop = new AbortController()
process.on('SIGTERM', () => stop.abort())

const leaseOf = message => `${PROCESSING}:lease:${message}`

// lease reserves a message for this Job. It fails if another Job holds the message or has finished it.
async function lease (message) {
  await redis('SET', leaseOf(message), JOB, 'NX', 'EX', leaseSeconds)
  if (await redis('GET', leaseOf(message)) !== JOB) return false
  if (await redis('LPOS', PROCESSING, message) !== null) return true
  await release(message)
  return false
}

// release removes a message from the list in progress, and adds it to another list if one is named, in one step.
const releaseScript = `
if redis.call("LREM", KEYS[1], 1, ARGV[1]) == 1 and KEYS[4] then redis.call("RPUSH", KEYS[4], ARGV[1]) end
redis.call("DEL", KEYS[2])
redis.call("HDEL", KEYS[3], ARGV[1])
`
const release = (message, ...to) =>
  redis('EVAL', releaseScript, 3 + to.length, PROCESSING, leaseOf(message), TRIES, ...to, message)

// take returns a message that this Job holds: one whose worker died, or the next one. It returns null if there was none.
async function take () {
  for (const message of await redis('LRANGE', PROCESSING, 0, -1)) {
    if (await lease(message)) return message
  }
  const message = await redis('BLMOVE', QUEUE, PROCESSING, 'RIGHT', 'LEFT', 2)
  return message !== null && await lease(message) ? message : null
}

async function handle (message) {
  try {
    if (await redis('HINCRBY', TRIES, message, 1) > mostTries) throw new Error('its workers died')
    await work(message, stop.signal)
  } catch (error) {
    if (stop.signal.aborted) {
      await release(message, QUEUE)
      process.exit(143) // as a process that SIGTERM ends
    }
    console.error('failed:', message, error.message)
    await release(message, FAILED)
    process.exit(messageFailed)
  }
  await release(message)
}

async function main () {
  let processed = false
  while (!stop.signal.aborted) {
    const message = await take()
    if (message !== null) {
      await handle(message)
      if (!UNTIL_EMPTY) return 0
      processed = true
    } else if (await redis('LLEN', QUEUE) === 0 && (processed || await redis('LLEN', PROCESSING) === 0)) {
      return 0
    } // Otherwise a worker may have died: wait until its lease ends.
  }
  return 143
}

// A small Redis client. Use a library instead, such as ioredis.
const [, host, port] = /^(.*):(\d+)$/.exec(REDIS)
const socket = net.connect(port, host)
const chunks = socket[Symbol.asyncIterator]()
let received = Buffer.alloc(0)

async function redis (...words) {
  const encoded = words.map(word => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`)
  socket.write(`*${words.length}\r\n${encoded.join('')}`)
  return reply()
}

async function read (length) {
  while (received.length < length()) {
    const { value, done } = await chunks.next()
    if (done) throw new Error('the server has closed the connection')
    received = Buffer.concat([received, value])
  }
  const text = received.subarray(0, length()).toString()
  received = received.subarray(length())
  return text
}

async function reply () {
  const line = await read(() => received.includes('\r\n') ? received.indexOf('\r\n') + 2 : Infinity)
  const rest = line.slice(1, -2)
  switch (line[0]) {
    case ':': return Number(rest)
    case '+': return rest
    case '-': throw new Error(rest)
    case '$': return rest === '-1' ? null : (await read(() => Number(rest) + 2)).slice(0, -2)
  }
  if (rest === '-1') return null
  const items = []
  for (let i = 0; i < Number(rest); i++) items.push(await reply())
  return items
}

process.exit(await main())
