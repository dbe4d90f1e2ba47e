// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// memoryBound is by how much strangers may make the operator grow. One of them sends more at once.
const memoryBound = announcedBytes / 2

// It is not parallel: other tests would make the operator grow, too.
func TestStrangersHarmNobody(t *testing.T) {
	g := NewWithT(t)
	fixture, alley := newEmptyFixture(t), newEmptyFixture(t)
	neighbour := add(t, fixture, "neighbour")
	g.Expect(fixture.AwaitSubscriptions(t.Context())).To(Succeed())
	fault := Fault{
		Name:    "strangers in the place of other servers",
		Promise: "others are not concerned, memory is bounded, and nothing they say is shown",
		Short:   5 * time.Second, Long: time.Minute,
	}
	var strangers []*lured
	fault.Strike = func(ctx context.Context, _ *Target, lasting time.Duration, meanwhile Meanwhile) error {
		before := must.Get(shared.Operator.Memory("VmRSS"))(g)
		strangers = lure(t, alley)
		return during(ctx, lasting, func(ctx context.Context) error {
			err := errors.Join(meanwhile(ctx), neighbour.AwaitExpected(ctx))
			for _, stranger := range strangers {
				stranger.expectBlamed(t)
			}
			grown := must.Get(shared.Operator.Memory("VmHWM"))(g) - before
			t.Logf("the operator had %d MB before, and grew by %d MB at most", before>>20, grown>>20)
			g.Expect(grown).To(BeNumerically("<", memoryBound))
			expectUnshown(t, alley)
			return err
		})
	}
	row, err := fixture.Play(t.Context(), fault, lasting(fault))
	for _, stranger := range strangers {
		stranger.expectCured(t)
	}
	expectUnshown(t, alley)
	conclude(t, fixture, row, err, fault.Within)
}

// lured is a queue whose server is said to be where a stranger is.
type lured struct {
	*Queue
	stranger  Stranger
	listening *redistest.Scripted
}

// lure has strangers listen, and makes a queue with messages for each.
func lure(t *testing.T, alley *Fixture) []*lured {
	t.Helper()
	g := NewWithT(t)
	var all []*lured
	for i, stranger := range Strangers() {
		listening := redistest.NewScripted(t, stranger.Script)
		q := add(t, alley, fmt.Sprintf("lured-%d", i), sjtest.At(listening.Addr()))
		all = append(all, &lured{Queue: q, stranger: stranger, listening: listening})
	}
	g.Expect(alley.Push(t.Context())).To(Succeed())
	return all
}

// expectBlamed waits until the operator says what is wrong.
func (l *lured) expectBlamed(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	for kind, reason := range map[string]string{
		scaledjobv1.ConditionQueueConnected:      l.stranger.Reading,
		scaledjobv1.ConditionNotificationsActive: l.stranger.Hearing,
	} {
		if reason != "" {
			g.Expect(l.await(t.Context(), want{reasons: map[string]string{kind: reason}})).To(Succeed(), l.stranger.Name)
		}
	}
	g.Expect(l.Jobs.Created()).To(BeZero(), l.stranger.Name)
}

// expectCured names the right server, and notes how soon the Jobs come.
func (l *lured) expectCured(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(l.Update(t.Context(), sjtest.At(l.target.Addr()))).To(Succeed())
	l.listening.Close()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	err := l.AwaitExpected(ctx)
	row := jobwatch.Row{
		Fault:    "stranger: " + l.stranger.Name,
		Promise:  "no Job before the right server is named, and messages get theirs then",
		Recovery: time.Since(began), Lost: max(0, l.expected-l.Jobs.Created()),
	}
	g.Expect(l.Jobs.Sync(t.Context())).To(Succeed())
	row.Over = max(0, l.Jobs.Created()-l.expected)
	table.Add(row)
	g.Expect(err).NotTo(HaveOccurred(), l.stranger.Name)
	g.Expect(l.Jobs.Violation()).To(BeEmpty(), l.stranger.Name)
	g.Expect(row.Over).To(BeZero(), l.stranger.Name)
}

// The negative control of the bound: it really comes, and who takes what is announced exceeds it.
func TestControlStrangersSendWhatTheyAnnounce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	strangers := Strangers()
	huge := strangers[slices.IndexFunc(strangers, func(s Stranger) bool { return s.Name == hugeString })]
	conn := must.Get(net.Dial("tcp", redistest.NewScripted(t, huge.Script).Addr()))(g)
	t.Cleanup(func() { g.Expect(conn.Close()).To(Succeed()) })
	g.Expect(io.WriteString(conn, "*2\r\n$4\r\nllen\r\n$6\r\nemails\r\n")).Error().NotTo(HaveOccurred())
	reply := bufio.NewReader(conn)
	g.Expect(reply.ReadString('\n')).To(Equal(fmt.Sprintf("$%d\r\n", announcedBytes)))
	g.Expect(io.CopyN(io.Discard, reply, memoryBound+1)).To(BeEquivalentTo(memoryBound + 1))
}

// shown is all that the operator lets anybody see about a namespace, and all of its metrics.
func shown(t *testing.T, namespace string) string {
	t.Helper()
	g := NewWithT(t)
	var all bytes.Buffer
	for _, list := range []client.ObjectList{
		&scaledjobv1.ScaledJobList{}, &batchv1.JobList{}, &corev1.EventList{}, &eventsv1.EventList{},
	} {
		g.Expect(shared.API.List(t.Context(), list, client.InNamespace(namespace))).To(Succeed())
		g.Expect(json.NewEncoder(&all).Encode(list)).To(Succeed())
	}
	metrics := must.Get(operator.Get(t.Context(), shared.Operator.MetricsURL()))(g)
	return all.String() + metrics
}

// expectUnshown waits until there is an event about each queue that something is
// wrong with, and finds nothing of what strangers say, anywhere.
func expectUnshown(t *testing.T, alley *Fixture) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(func() []string { return withoutEvents(t, alley) }).WithTimeout(timeout).Should(BeEmpty())
	g.Expect(shared.Operator.Logs()).To(ContainSubstring(planted), "it has come to the operator")
	g.Expect(strings.Contains(shown(t, alley.namespace), planted)).To(BeFalse(), "what a stranger said is shown")
}

// withoutEvents are the queues that something is wrong with, and no event says so.
func withoutEvents(t *testing.T, alley *Fixture) []string {
	t.Helper()
	g := NewWithT(t)
	var events eventsv1.EventList
	g.Expect(shared.API.List(t.Context(), &events, client.InNamespace(alley.namespace))).To(Succeed())
	var silent []string
	for _, q := range alley.Queues {
		object := must.Get(q.Get(t.Context()))(g)
		status := &object.Status
		wrong := apimeta.IsStatusConditionFalse(status.Conditions, scaledjobv1.ConditionQueueConnected) ||
			apimeta.IsStatusConditionFalse(status.Conditions, scaledjobv1.ConditionNotificationsActive)
		said := slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == q.Object.Name
		})
		if wrong && !said {
			silent = append(silent, q.Object.Name)
		}
	}
	return silent
}

// The negative control of the search: it finds what is there.
func TestControlSecretIsFound(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(g Gomega, q *Queue, what string){
		"status": func(g Gomega, q *Queue, what string) {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Planted",
				"status":"True","reason":"Planted","message":%q,"lastTransitionTime":%q}]}}`, what, time.Now().UTC().Format(time.RFC3339)))
			g.Expect(q.API.Status().Patch(t.Context(), q.Object.DeepCopy(), patch)).To(Succeed())
		},
		"event": func(g Gomega, q *Queue, what string) {
			g.Expect(q.API.Create(t.Context(), &eventsv1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: q.Object.Namespace, Name: "planted"}, EventTime: metav1.NowMicro(),
				ReportingController: "test", ReportingInstance: "test", Type: corev1.EventTypeNormal,
				Action: "Plant", Reason: "Planted", Note: what,
				Regarding: corev1.ObjectReference{Kind: "ScaledJob", Namespace: q.Object.Namespace, Name: q.Object.Name},
			})).To(Succeed())
		},
		"metric": func(g Gomega, q *Queue, what string) {
			g.Expect(q.Update(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) { spec.QueueName = what })).To(Succeed())
			g.Eventually(func() string { return shown(t, "no-such-namespace") }).WithTimeout(timeout).Should(ContainSubstring(what))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			fixture := newEmptyFixture(t)
			queue := add(t, fixture, "shown")
			what := "shown-as-" + name // Other than planted, for metrics are those of all.
			g.Expect(shown(t, fixture.namespace)).NotTo(ContainSubstring(what))
			plant(g, queue, what)
			g.Expect(shown(t, fixture.namespace)).To(ContainSubstring(what))
		})
	}
}
