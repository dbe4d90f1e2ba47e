// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "net"

// announce says what is going to happen.
func announce(screen *screen) {
	screen.line("This demo starts a Kubernetes control plane, Redis and the operator, all real,")
	screen.line("pushes messages to a Redis list and shows how soon how many Jobs appear. It")
	screen.line("takes half a minute once everything is built, and leaves nothing behind.")
	screen.line("")
	screen.line("Preparing")
}

// introduce says what is in place when the first message is pushed.
func (d *demo) introduce() {
	spec := d.sample.Spec
	d.screen.line("")
	d.screen.line("ScaledJob %s, as in %s", d.sample.Name, samplePath)
	d.screen.line("  queueName     %-18s  a Redis list", spec.QueueName)
	d.screen.line("  redisAddress  %-18s  the Redis started here", spec.RedisAddress)
	d.screen.line("  threshold     %-18d  messages to a Job", spec.Threshold)
	d.screen.line("  maxReplicas   %-18d  Jobs at a time", spec.MaxReplicasOrDefault())
	d.screen.line("")
	d.screen.line("No container runs here. KWOK plays the node, and for each Pod this demo waits")
	d.screen.line("%s, then removes up to %d messages from the list and ends the Pod.", workDuration, spec.Threshold)
	d.screen.line("Times are from the push until a watch of the demo's own shows the Job.")
	d.screen.line("")
	d.screen.line("  %-14s%9s%13s%13s%10s%13s", "pushed", "Jobs due", "first seen", "last seen", "created", "worked off")
}

// conclude says what it all came to.
func (d *demo) conclude(o outcome) {
	messages := o.total(func(r result) int { return r.messages })
	due := o.total(func(r result) int { return r.due })
	created := o.total(func(r result) int { return r.created })
	reactions := o.reactions()
	d.screen.line("")
	d.screen.line("Summary")
	d.screen.line("  messages  %d pushed, all worked off", messages)
	d.screen.line("  Jobs      %d due, %d created, at most %d active at a time", due, created, o.peak)
	d.screen.line("  reaction  p50 %s, p99 %s, for the %d single messages",
		short(percentile(reactions, 50)), short(percentile(reactions, 99)), len(reactions))
}

// inviteToLookAround says how to reach what is left running.
func (d *demo) inviteToLookAround() {
	host, port, err := net.SplitHostPort(d.env.redis.Addr())
	if err != nil {
		return
	}
	d.screen.line("")
	d.screen.line("Everything runs until Ctrl-C, the workers too. In another terminal:")
	d.screen.line("  export KUBECONFIG=%s", d.env.cluster.Kubeconfig())
	d.screen.line("  kubectl get scaledjobs,jobs,pods")
	d.screen.line("  kubectl describe scaledjob %s", d.sample.Name)
	d.screen.line("  redis-cli -h %s -p %s rpush %s photo.jpg", host, port, d.sample.Spec.QueueName)
}
