// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// pushes are the commands for those samples that name none in their comments.
const pushes = `kubectl exec -n default deployment/redis -- redis-cli LPUSH minimal 1
kubectl exec -n default deployment/redis -- redis-cli LPUSH image-resize-queue 1 2 3
kubectl exec -n default deployment/redis -- redis-cli LPUSH poll-only 1
kubectl exec -n default deployment/redis -- sh -c 'redis-cli LPUSH report-lines $(seq 60)'`

// slow is the sample whose Jobs work for ten minutes.
const slow = "videos"

// TestSamples applies all samples, runs the commands that they name, and waits until each has a Job that is complete.
func TestSamples(t *testing.T) {
	skip.UnderShort(t, "takes two minutes; the suite behaviour runs the workers of the samples")
	g := NewWithT(t)
	install(t)
	shell(t, "kubectl apply --namespace=default --kustomize=config/samples")
	atEnd(t, "kubectl delete --namespace=default --kustomize=config/samples")
	kubectl(t, "--namespace=default", "rollout", "status", "deployment/redis", "--timeout=2m")
	for _, command := range append(sampleCommands(t), strings.Split(pushes, "\n")...) {
		shell(t, command)
	}
	names := strings.Fields(kubectl(t, "--namespace=default", "get", "scaledjobs", "-o", "jsonpath={.items[*].metadata.name}"))
	g.Expect(names).To(ContainElement(slow))
	for _, name := range names {
		wanted := `{.items[*].status.conditions[?(@.type=="Complete")].status}`
		if name == slow {
			wanted = "{.items[*].status.ready}"
		}
		g.Eventually(func() string {
			return kubectl(t, "--namespace=default", "get", "jobs", "-l", "batch.miracle.dev/scaledjob="+name, "-o", "jsonpath="+wanted)
		}).Should(Or(ContainSubstring("True"), ContainSubstring("1")), name)
	}
}

// sampleCommands returns the commands in the comments of the samples that change something.
func sampleCommands(t *testing.T) []string {
	t.Helper()
	files := must.Get(filepath.Glob(root("config/samples/*.yaml")))(NewWithT(t))
	var commands []string
	for _, file := range files {
		content := must.Get(os.ReadFile(file))(NewWithT(t))
		text := strings.ReplaceAll(string(content), "\\\n#", "")
		for line := range strings.Lines(text) {
			command := strings.TrimSpace(strings.TrimPrefix(line, "#"))
			if strings.HasPrefix(command, "kubectl exec ") || strings.HasPrefix(command, "kubectl patch ") {
				commands = append(commands, command)
			}
		}
	}
	return commands
}
