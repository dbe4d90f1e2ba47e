// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/internal/cli"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestStatusShowsWhatTheOperatorReports(t *testing.T) {
	t.Parallel()
	g, namespace := NewWithT(t), newEmails(t, "{maxReplicas: 20}")
	newScaledJob(t, namespace, "images", "{}", "{}")

	is := run(t, "status", "-n", namespace)
	g.Expect(is.code).To(BeZero(), is.errOut)
	g.Expect(rows(is.out)).To(HaveExactElements(
		HaveExactElements("NAME", "QUEUE", "DEPTH", "ACTIVE", "PENDING", "DESIRED", "MAX", "MODE", "READY", "LIMITED", "AGE"),
		HaveExactElements("emails", "emails", "47", "5", "2", "5", "20", "Tracking", "True", "–", Not(BeEmpty())),
		HaveExactElements("images", "images", "–", "0", "0", "–", "100", "–", "Unknown", "–", Not(BeEmpty())),
	))
	g.Expect(run(t, "status", "-A", "-l", "team=emails").out).To(ContainSubstring(namespace))
	g.Expect(run(t, "status", "-n", namespace, "-o", "wide").out).To(ContainSubstring("SUCCEEDED"))

	is = run(t, "status", "emails", "-n", namespace)
	g.Expect(is.out).To(And(ContainSubstring("Ready is True: Reconciled\n  It works."), Not(ContainSubstring("images"))))
	is = run(t, "status", "images", "-n", namespace)
	g.Expect(is.out).To(ContainSubstring("The operator has not reported anything yet."))
}

// Programs read this: fields are only ever added.
func TestStatusForProgramsIsStable(t *testing.T) {
	t.Parallel()
	g, namespace := NewWithT(t), newEmails(t, "{maxReplicas: 20}")
	const expected = `{
  "apiVersion": "cli.batch.miracle.dev/v1", "kind": "StatusList",
  "items": [{
    "namespace": "NAMESPACE", "name": "emails", "current": true, "suspend": false, "depth": 47,
    "queues": [{"name": "emails", "type": "List", "role": "Waiting", "threshold": 10, "depth": 47}],
    "desiredJobs": 5, "activeJobs": 5, "pendingJobs": 2, "suspendedJobs": 0, "succeededJobs": 12, "failedJobs": 1,
    "minReplicas": 0, "spareReplicas": 0, "maxReplicas": 20, "mode": "Tracking",
    "ready": "True", "readyReason": "Reconciled", "readyMessage": "It works."
  }]
}`
	wanted := strings.ReplaceAll(expected, "NAMESPACE", namespace)
	is := run(t, "status", "-n", namespace, "-o", "json")
	g.Expect(is.code).To(BeZero(), is.errOut)
	g.Expect(is.out).To(MatchJSON(wanted))
	is = run(t, "status", "emails", "-n", namespace, "-o", "yaml")
	g.Expect(yaml.YAMLToJSON([]byte(is.out))).To(MatchJSON(wanted))

	var list cli.StatusList
	is = run(t, "status", "-n", control.NewNamespace(t, "cli"), "-o", "json")
	g.Expect(json.Unmarshal([]byte(is.out), &list)).To(Succeed())
	g.Expect(list.Items).NotTo(BeNil(), "no ScaledJobs are an empty list")
}

func TestNamesThatDoNotExist(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace, empty := control.NewNamespace(t, "cli"), control.NewNamespace(t, "cli")
	newScaledJob(t, namespace, "emails", "{}", healthy)
	for _, command := range []string{"status", "explain", "doctor", "plan", "suspend", "resume"} {
		is := run(t, command, "emial", "-n", namespace)
		g.Expect(is).To(Equal(answer{errOut: `error: There is no ScaledJob "emial" in namespace "` + namespace + `". Did you mean "emails"?` + "\n", code: 1}))
		is = run(t, command, "emails", "-n", empty)
		g.Expect(is.code).To(Equal(1))
		g.Expect(is.errOut).To(HavePrefix(`error: There is no ScaledJob in namespace "` + empty + `". Choose another namespace`))
	}
	is := run(t, "status", "-n", empty)
	g.Expect(is).To(Equal(answer{errOut: `There are no ScaledJobs in namespace "` + empty + `".` + "\n"}))
}

func TestWhoMayNotLook(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := control.NewNamespace(t, "cli")
	for _, command := range []string{"status", "status emails", "top", "explain emails", "doctor emails", "plan emails", "suspend emails", "resume --all"} {
		is := run(t, append(strings.Fields(command), "-n", namespace, "--as=nobody")...)
		g.Expect(is.code).To(Equal(1), command)
		g.Expect(is.out).To(BeEmpty(), command)
		g.Expect(is.errOut).To(MatchRegexp(`^error: scaledjobs\.batch\.miracle\.dev .*is forbidden: User "nobody" .* Ask an administrator .*\n$`), command)
	}
}

func TestNoClusterIsASentence(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	// Nobody listens on the port of a listener that was closed.
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(g)
	g.Expect(listener.Close()).To(Succeed())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(cluster.WriteKubeconfig(&rest.Config{Host: "https://" + listener.Addr().String()}, kubeconfig)).To(Succeed())
	for _, command := range []string{"status", "top", "explain emails", "doctor emails", "plan emails", "suspend emails", "convert --from-cluster"} {
		is := run(t, append(strings.Fields(command), "--kubeconfig="+kubeconfig)...)
		g.Expect(is.code).To(Equal(1), command)
		g.Expect(is.errOut).To(MatchRegexp(`^error: The API server does not answer: .*refused\. Check the network, .*\n$`), command)
	}
	g.Expect(run(t, "status", "--context=nowhere").errOut).To(MatchRegexp(`^error: The kubeconfig can't be used: .* nowhere. Check --kubeconfig and --context.\n$`))
}

// rows are the cells of a table.
func rows(table string) [][]string {
	var found [][]string
	for line := range strings.Lines(table) {
		found = append(found, strings.Fields(line))
	}
	return found
}
