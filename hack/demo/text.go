// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"

	"miracle.dev/scaledjob-operator/hack/demo/environment"
	"miracle.dev/scaledjob-operator/hack/demo/view"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
)

// lineWidth is that of all that is written outside the live view.
const lineWidth = 80

// announce says what is going to happen.
func (d *demo) announce() {
	d.lines.line("This demo starts a real Kubernetes control plane and the operator, pushes")
	d.lines.line("messages to Redis, and shows how soon how many Jobs appear. Once everything is")
	d.lines.line("%s", d.opts.expectations())
	d.lines.line("")
	d.lines.line("Preparing")
}

// expectations go on where "once everything is" has been said.
func (o options) expectations() string {
	takes, then := "built, it takes a minute and a half;", "then all is stopped and removed."
	if len(o.scenes) == 1 {
		takes = "built, this scene takes half a minute at most;"
	}
	if o.keep {
		then = "then all runs until Ctrl-C."
	}
	return takes + " " + then
}

// introduce says what is in place when the first message is pushed.
func (d *demo) introduce() {
	d.lines.line("")
	d.lines.line("Redis: %s", d.env.Redis.Describe())
	d.lines.line("ScaledJobs: that of %s, and two like it", environment.SamplePath)
	d.lines.line("  %-18s%-20s%20s%14s", "name", "queue", "messages per Job", "max Jobs")
	for _, scaledJob := range d.env.ScaledJobs {
		spec := scaledJob.Spec
		queue := spec.QueueName[len(d.env.Redis.Prefix):]
		d.lines.line("  %-18s%-20s%20d%14d", scaledJob.Name, queue, spec.Threshold, spec.MaxReplicasOrDefault())
	}
	d.lines.line("")
	d.lines.line("No container runs here. KWOK plays the node, and for each Pod this demo waits")
	d.lines.line("%s, then removes the messages of a Job from the list and ends the Pod.", view.Duration(environment.WorkDuration))
	d.lines.line("")
}

// inviteToLookAround says how to reach what is left running.
func (d *demo) inviteToLookAround() {
	host, port, err := net.SplitHostPort(d.env.Redis.Address)
	if err != nil {
		return
	}
	d.lines.line("")
	d.lines.line("Everything runs until Ctrl-C, the workers too. In another terminal, with kubectl")
	d.lines.line("and redis-cli if this machine has them:")
	d.lines.line("  export KUBECONFIG=%s", d.env.Kubeconfig())
	d.lines.line("  kubectl get sjob,jobs,pods")
	d.lines.line("  kubectl describe sjob %s", environment.Images)
	d.lines.line("  tail -f %s", d.env.Operator.LogPath())
	d.lines.line("  redis-cli -h %s -p %s rpush %s photo.jpg", host, port, d.env.ScaledJobs[0].Spec.QueueName)
	d.lines.line("Workers are played for these three ScaledJobs only. Pods of others run on, unless")
	d.lines.line("their template has the annotation %s, such as \"5s\".", cluster.PodSucceedAfter)
}
