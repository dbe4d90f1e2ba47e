// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/explain"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// sum is a ScaledJob, the messages in its keys, and what is due for them.
type sum struct {
	spec     string
	lists    map[string]int
	stream   int
	read     int64 // of the entries of the stream
	desired  int32
	formula  string
	outlines string
}

// sums are ScaledJobs by their names, which are the names of their keys too.
var sums = map[string]sum{
	"default": {spec: `{queueName: default, threshold: 10}`, lists: map[string]int{"default": 47}, desired: 5, formula: "ceil(47 / 10) = 5"},
	"limited": {
		spec: `{queueName: limited, threshold: 1, maxReplicas: 2}`, lists: map[string]int{"limited": 5}, desired: 2,
		formula: "lowered to maxReplicas: 2", outlines: "more are due than maxReplicas allows",
	},
	"added-up": {
		spec:  `{queues: [{name: urgent, threshold: 1}, {name: bulk, threshold: 100}, {name: working, role: InProgress, threshold: 1}], threshold: 1}`,
		lists: map[string]int{"urgent": 2, "bulk": 150, "working": 1}, desired: 5, formula: "(2 + 1) + ceil(150 / 100) = 5",
	},
	"largest": {
		spec:  `{queues: [{name: left}, {name: right, threshold: 3}], threshold: 1, queuesCalculation: Max}`,
		lists: map[string]int{"left": 2, "right": 9}, desired: 3, formula: "max(2, ceil(9 / 3)) = 3",
	},
	"eager": {
		spec: `{queueName: eager, threshold: 1, maxReplicas: 3, scalingStrategy: {type: Eager}}`, lists: map[string]int{"eager": 1}, desired: 3,
		formula: "Messages wait: maxReplicas = 3",
	},
	"accurate": {
		spec: `{queueName: accurate, threshold: 2, scalingStrategy: {type: Accurate}}`, lists: map[string]int{"accurate": 3}, desired: 2,
		formula: "0 claimed + ceil(3 / 2) = 2",
	},
	"custom": {
		spec:  `{queueName: custom, threshold: 1, scalingStrategy: {type: Custom, custom: {queueLengthDeduction: 1}}}`,
		lists: map[string]int{"custom": 3}, desired: 2, formula: "0 claimed + 3 − 1 − floor(0 × 0 / 100) = 2",
	},
	"inactive": {
		spec: `{queueName: inactive, threshold: 1, activationThreshold: 9}`, lists: map[string]int{"inactive": 4}, desired: 0,
		formula: "4 outstanding messages do not exceed activationThreshold, which is 9, so the Jobs that are due for them are 0",
	},
	"spare": {
		spec: `{queueName: spare, threshold: 1, spareReplicas: 2, minReplicas: 1}`, lists: map[string]int{"spare": 1}, desired: 3,
		formula: "and 2 of spareReplicas: 3",
	},
	"stream": {
		spec:   `{queues: [{name: stream, type: Stream, stream: {consumerGroup: workers}}], threshold: 2}`,
		stream: 3, desired: 2, formula: "ceil(3 / 2) = 2",
	},
	"accurate-stream": {
		spec:   `{queues: [{name: accurate-stream, type: Stream, stream: {consumerGroup: workers}}], threshold: 2, scalingStrategy: {type: Accurate}}`,
		stream: 7, read: 4, desired: 2, formula: "0 claimed + ceil(3 / 2) = 2",
	},
}

// fill puts the messages into the keys.
func (s *sum) fill(t *testing.T, name string, client *redis.Client) {
	t.Helper()
	g := NewWithT(t)
	for key, n := range s.lists {
		g.Expect(client.RPush(t.Context(), key, slices.Repeat([]any{"message"}, n)...).Err()).To(Succeed())
	}
	if s.stream == 0 {
		return
	}
	g.Expect(client.XGroupCreateMkStream(t.Context(), name, "workers", "0").Err()).To(Succeed())
	for range s.stream {
		g.Expect(client.XAdd(t.Context(), &redis.XAddArgs{Stream: name, Values: []string{"a", "b"}}).Err()).To(Succeed())
	}
	if s.read > 0 {
		worker := &redis.XReadGroupArgs{Group: "workers", Consumer: "one", Streams: []string{name, ">"}, Count: s.read, Block: -1}
		g.Expect(client.XReadGroup(t.Context(), worker).Err()).To(Succeed())
	}
}

// What the command computes from the status is what the operator has computed from Redis.
func TestExplainRepeatsTheArithmeticOfTheOperator(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	namespace := control.NewNamespace(t, "cli")
	operator.New(t, operator.Options{Cluster: control, Args: []string{"--watch-namespaces=" + namespace}})
	chosen := skip.AllBut(t, sums, "added-up", "accurate", "accurate-stream")
	for name, row := range chosen {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			row.fill(t, name, server.Client())
			sj := &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			g.Expect(yaml.UnmarshalStrict([]byte(row.spec), &sj.Spec)).To(Succeed())
			g.Expect(yaml.UnmarshalStrict([]byte("{spec: {template: {spec: {containers: [{name: worker, image: worker}]}}}}"), &sj.Spec.JobTemplate)).
				To(Succeed())
			sj.Spec.RedisAddress = server.Addr()
			g.Expect(admin.Create(t.Context(), sj)).To(Succeed())
			g.Eventually(func(g Gomega) {
				is := explained(t, g, name, "-n", namespace)
				g.Expect(is.Desired).To(HaveValue(Equal(row.desired)))
				g.Expect(is.Jobs).To(And(HaveField("Source", "jobs"), HaveField("Active", int(row.desired))))
				g.Expect(is.Arithmetic).To(ContainElement(row.formula))
				g.Expect(is.Arithmetic).NotTo(ContainElement(ContainSubstring("different moments")))
				g.Expect(is.Summary).To(ContainSubstring(row.outlines))
				g.Expect(is.Unreadable).To(BeEmpty())
			}).Should(Succeed())
		})
	}
	is := run(t, "status", "-n", namespace)
	NewWithT(t).Expect(rows(is.out)).To(HaveLen(len(chosen)+1), is.errOut)
}

// Before somebody resumes it, a converted ScaledJob only shows what it would do.
func TestAConvertedScaledJobWorks(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := redistest.New(t, redistest.Options{})
	namespace := control.NewNamespace(t, "cli")
	operator.New(t, operator.Options{Cluster: control, Args: []string{"--watch-namespaces=" + namespace, "--leader-election-id=converted"}})
	g.Expect(server.Client().RPush(t.Context(), "mail", "a", "b", "c").Err()).To(Succeed())
	g.Expect(control.Apply(t.Context(), strings.NewReader(fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledJob
metadata: {namespace: %s, name: mail}
spec:
  jobTargetRef: {template: {spec: {containers: [{name: worker, image: worker, env: [{name: REDIS, value: %q}]}]}}}
  rollout: {strategy: gradual}
  triggers: [{type: redis, metadata: {addressFromEnv: REDIS, listName: mail, listLength: "2"}}]
`, namespace, server.Addr())))).To(Succeed())
	converted := run(t, "convert", "--from-cluster", "-n", namespace)
	g.Expect(converted.code).To(BeZero(), converted.errOut)
	g.Expect(control.Apply(t.Context(), strings.NewReader(converted.out))).To(Succeed())

	var is explain.Explanation
	g.Eventually(func(g Gomega) {
		is = explained(t, g, "mail", "-n", namespace)
		g.Expect(is.Desired).To(HaveValue(BeEquivalentTo(2)))
	}).Should(Succeed())
	g.Expect(is.Jobs.Active).To(BeZero())
	g.Expect(is.Changes).To(ContainElement("To create Jobs again: kubectl scaledjob resume mail --namespace=" + namespace))
	g.Expect(run(t, "resume", "mail", "-n", namespace).code).To(BeZero())
	g.Eventually(func(g Gomega) {
		g.Expect(explained(t, g, "mail", "-n", namespace).Jobs.Active).To(Equal(2))
	}).Should(Succeed())
}
