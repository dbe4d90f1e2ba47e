// Adds three BullMQ jobs to the queue QUEUE on the Redis server REDIS (host:port). The last one fails.
import { Queue } from 'bullmq'

const [, host, port] = /^(.*):(\d+)$/.exec(process.env.REDIS)
const queue = new Queue(process.env.QUEUE, { connection: { host, port: Number(port) } })
await queue.addBulk([{ seconds: 1 }, { seconds: 2 }, { seconds: 0, fail: true }].map(data => ({ name: 'thumbnail', data })))
await queue.close()
