// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"

	"miracle.dev/scaledjob-operator/hack/demo/environment"
	"miracle.dev/scaledjob-operator/hack/demo/script"
	"miracle.dev/scaledjob-operator/hack/demo/view"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
)

// announce says what the demo will do.
func (d *demo) announce() {
	d.lines.line("This demo starts a real Kubernetes control plane and the operator, pushes")
	d.lines.line("messages to Redis, and shows how soon how many Jobs appear. Once everything is")
	d.lines.line("%s", expectations(d.opts))
	d.lines.line("")
	d.lines.line("Preparing")
}

// expectations continues the sentence "Once everything is".
func expectations(o script.Options) string {
	takes, then := "built, it takes a minute and a half;", "then everything is removed."
	if len(o.Scenes) == 1 {
		takes = "built, this scene takes half a minute at most;"
	}
	if o.Keep {
		then = "then everything runs until Ctrl-C."
	}
	return takes + " " + then
}

// introduce says what was started, before the first message is pushed.
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
	d.lines.line("No container runs here. The node is simulated, and for each Pod this demo waits")
	d.lines.line("%s, then removes the messages of a Job from the list and ends the Pod.", view.Duration(environment.WorkDuration))
	d.lines.line("")
}

// conclude says that all is well, and which scenes were not played.
func (d *demo) conclude(scenes int) {
	d.lines.line("All checks of the %s passed.", view.Count(scenes, "scene"))
	for _, scene := range d.opts.LeftOut {
		d.lines.line("Scene %s was left out, because it %s.", scene.Name, scene.Harm)
	}
}

// inviteToLookAround says how to reach what keeps running.
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
	d.lines.line("Only these three ScaledJobs have workers. The Pods of others never end, unless")
	d.lines.line("their template has the annotation %s, such as \"5s\".", cluster.PodSucceedAfter)
}
