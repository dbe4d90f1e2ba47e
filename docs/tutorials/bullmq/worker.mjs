// Processes one BullMQ job of the queue QUEUE on the Redis server REDIS (host:port), and ends.
import { randomUUID } from 'node:crypto'
import { Worker } from 'bullmq'

const [, host, port] = /^(.*):(\d+)$/.exec(process.env.REDIS)
const connection = { host, port: Number(port) }
const lockDuration = 30000 // milliseconds
const waits = 24           // for up to 5 seconds each

// The work: replace it.
async function work (job) {
  console.log('processing', job.id, JSON.stringify(job.data))
  await new Promise(resolve => setTimeout(resolve, 1000 * job.data.seconds))
  if (job.data.fail) throw new Error('the job says so')
  return 'done'
}

let stopping = false
const stopped = new Promise(resolve => process.on('SIGTERM', () => { stopping = true; resolve('stopped') }))

const worker = new Worker(process.env.QUEUE, null, { connection, lockDuration })
const token = randomUUID()
await worker.startStalledCheckTimer() // moves the jobs of dead workers back

let job
for (let wait = 0; !job && !stopping && wait < waits; wait++) {
  job = await worker.getNextJob(token)
}
let code = stopping ? 143 : 0 // 143 is that of a process that SIGTERM ends
if (job) {
  const renew = setInterval(() => job.extendLock(token, lockDuration).catch(console.error), lockDuration / 3)
  try {
    const result = stopping ? 'stopped' : await Promise.race([work(job), stopped])
    if (result === 'stopped') {
      await job.moveToWait(token) // another worker takes it
      code = 143
    } else {
      await job.moveToCompleted(result, token, false)
    }
  } catch (error) {
    console.error('failed:', error.message)
    await job.moveToFailed(error, token, false) // BullMQ tries it again if it has attempts left
    code = 65
  }
  clearInterval(renew)
}
await worker.close()
process.exit(code)
