// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/webhook"
)

const (
	// atOnce is how many Jobs of one ScaledJob the operator creates or deletes at a time.
	atOnce = 16
	// requestsEach is how many Jobs of a namespace the operator creates or deletes at a time.
	requestsEach = 32
	// crowded is more ScaledJobs than the operator reconciles at a time.
	crowded = 5 * workers / 4
	// eventsAtOnce is how many events about one namespace the operator sends at a time.
	eventsAtOnce = 2
	// askedAtOnce is how many nodes of Clusters the operator asks at a time on behalf of one namespace, and largeReply the
	// size of a reply that makes it read the next one later. longAnswer is how long a node takes for a reply: less than
	// the operator waits.
	askedAtOnce = 4
	largeReply  = 500_000
	longAnswer  = 500 * time.Millisecond
	// unreachable is an address where nothing listens.
	unreachable = "127.0.0.1:1"
)

// sized returns the size of an attack in make test-all, or in make test.
func sized(all, short int) int {
	if testing.Short() {
		return short
	}
	return all
}

// databases is how many databases of Redis a namespace may use.
func databases() int { return sized(64, 16) }

// attack is the worst that a namespace does in one way.
type attack struct {
	name string
	// begin begins it, and returns when the operator is hit. It goes on until the test ends, or all its parts are over.
	begin func(h *hostile) course
}

// course is how an attack goes on.
type course struct {
	// ended returns how often something of it has come to its end, such as a request that was given up. It is nil where
	// what ends tells nothing, because it ends at once.
	ended func() int
	// reach returns when so many parts of the attack are over. It is nil if the attack has no parts.
	reach func(part, of int)
}

// hostile is a namespace that does its worst.
type hostile struct {
	Gomega
	t         *testing.T
	namespace string
	// servers is how many hostile servers of Redis an attack has, and passing how many ScaledJobs come and go.
	servers, passing int
}

// newHostile returns a namespace for one attack.
func newHostile(t *testing.T) *hostile {
	t.Helper()
	return &hostile{
		Gomega: NewWithT(t), t: t, namespace: shared.Cluster.NewNamespace(t, "hostile"),
		servers: databases(), passing: sized(2000, 100),
	}
}

// newHostileInAllWays returns a namespace for all attacks together. One of its databases is that of its other
// ScaledJobs; in make test-all, a third of the rest are of servers that flood, a third of Clusters and a third of
// silent servers.
func newHostileInAllWays(t *testing.T) *hostile {
	t.Helper()
	h := newHostile(t)
	h.servers, h.passing = sized((databases()-1)/3, databases()-1), sized(1000, 100)
	return h
}

// attacks returns all of them, in an order in which one namespace can begin them together: first those that hold no
// worker for long, because those that hang hold all that the namespace may have, and last the one after which its
// statuses do not change.
func attacks() []attack {
	return []attack{
		{"creates are refused by 429", func(h *hostile) course { return h.busy("limited", webhook.Refuse(429)) }},
		{"creates are refused by 403", func(h *hostile) course { return h.busy("forbidden", webhook.Refuse(403)) }},
		{"creates are answered by lies", func(h *hostile) course { return h.busy("deceived", webhook.Lie) }},
		{"servers flood", func(h *hostile) course { return h.floods() }},
		{"nodes of Clusters change what they announce", func(h *hostile) course { return h.lyingClusters() }},
		{"servers are silent", func(h *hostile) course { return h.silentServers() }},
		{"ScaledJobs come and go", func(h *hostile) course { return h.comeAndGo() }},
		{"deletes hang", func(h *hostile) course {
			jobsEach := sized(atOnce, 2)
			all := h.crowd("replacing", crowded, immediate, sjtest.AtMost(100))
			for _, each := range all {
				each.PushTogether(jobsEach)
				h.Eventually(func() int32 { return each.Status().ActiveJobs }).Should(BeEquivalentTo(jobsEach), each.Explain)
				each.AwaitTemplateChecked()
			}
			w := h.webhook(webhook.DeleteJob.Labelled(of("replacing")), webhook.Hang)
			for _, each := range all {
				each.Update(otherImage)
			}
			return h.untilHeld(w, requestsEach)
		}},
		{"dry runs hang", func(h *hostile) course {
			w := h.webhook(webhook.CreateJob.Labelled(of("empty")), webhook.Hang)
			h.crowd("empty", crowded)
			return h.untilHeld(w, workers/2)
		}},
		{"creates hang", func(h *hostile) course {
			w := h.webhook(webhook.CreateJob.Labelled(of("full")), webhook.Hang)
			for _, each := range h.crowd("full", crowded) {
				each.PushTogether(100)
			}
			parked := fmt.Sprintf("scaledjob_reconciles_parked{namespace=%q}", h.namespace)
			h.Eventually(running.Metrics).WithArguments(h.t.Context()).Should(HaveKeyWithValue(parked, BeNumerically(">", 0)))
			return h.untilHeld(w, requestsEach+workers/2) // Dry runs have the webhook too.
		}},
		{"events hang", func(h *hostile) course {
			w := h.webhook(webhook.CreateEvent, webhook.Hang)
			h.crowd("unreachable", crowded, sjtest.At(unreachable))
			return h.untilHeld(w, eventsAtOnce)
		}},
		{"status writes hang", func(h *hostile) course {
			w := h.webhook(webhook.UpdateStatus, webhook.Hang)
			for _, each := range h.crowd("written", crowded) {
				each.PushTogether(1)
			}
			return h.untilHeld(w, workers/2)
		}},
	}
}

// of returns the label of the Jobs of a crowd, by which a webhook has to do with these alone: of several webhooks for
// the same Jobs, the one that hangs would hide what the others answer.
func of(crowd string) map[string]string { return map[string]string{"crowd": crowd} }

// crowd creates so many ScaledJobs with these changes, whose names begin with name.
func (h *hostile) crowd(name string, count int, changes ...sjtest.Change) (all []*sjtest.Test) {
	h.t.Helper()
	labelled := func(spec *scaledjobv1.ScaledJobSpec) { spec.JobTemplate.Labels = of(name) }
	for i := range count {
		each := h.one(name + "-" + strconv.Itoa(i))
		each.Create(append(changes, labelled)...)
		all = append(all, each)
	}
	return all
}

// webhook runs a webhook of the namespace until the test ends.
func (h *hostile) webhook(of webhook.Rule, answer webhook.Answer) *webhook.Webhook {
	h.t.Helper()
	w := must.Get(webhook.Start(h.t.Context(), shared.API, h.namespace, of, answer))(h)
	h.t.Cleanup(func() { h.Expect(w.Stop(context.WithoutCancel(h.t.Context()))).To(Succeed()) })
	return w
}

func (h *hostile) one(name string) *sjtest.Test {
	return sjtest.NewTest(h.t, timeout, h.scaledJob(name))
}

func (h *hostile) scaledJob(name string) *sjtest.ScaledJob {
	return &sjtest.ScaledJob{
		API: shared.API, Redis: redis.Client(), Address: redis.Addr(), Operator: running,
		Namespace: h.namespace, Name: name, Queue: h.namespace + ":" + name,
	}
}

// busy lets a crowd have messages, and a webhook answer the creates of its Jobs. What ends then tells nothing: it ends
// at once.
func (h *hostile) busy(name string, answer webhook.Answer) course {
	h.t.Helper()
	w := h.webhook(webhook.CreateJob.Labelled(of(name)), answer)
	for _, each := range h.crowd(name, crowded) {
		each.PushTogether(100)
	}
	h.Eventually(func() int { return w.Counts().Ended }).Should(BeNumerically(">=", crowded))
	return course{}
}

// untilHeld waits until the webhook has requests that wait. What ends are those that were given up. At the end, no more
// may ever have waited at a time than the share of the namespace, whatever else the namespace does.
func (h *hostile) untilHeld(w *webhook.Webhook, share int) course {
	h.t.Helper()
	h.Eventually(func() int { return w.Counts().Waiting }).Should(BeNumerically(">=", 1))
	h.t.Cleanup(func() {
		most := w.Counts().Most
		h.t.Logf("at most %d requests of the hostile namespace waited at a time", most)
		h.Expect(most).To(BeNumerically("<=", share), "requests of the hostile namespace that waited at a time")
	})
	return course{ended: func() int { return w.Counts().Ended }}
}

// untilOneTells waits until one of the ScaledJobs of the namespace has a condition with this reason.
func (h *hostile) untilOneTells(kind, reason string) {
	h.t.Helper()
	tells := func(sj scaledjobv1.ScaledJob) bool {
		condition := apimeta.FindStatusCondition(sj.Status.Conditions, kind)
		return condition != nil && condition.Reason == reason
	}
	h.Eventually(func() bool {
		var all scaledjobv1.ScaledJobList
		h.Expect(shared.API.List(h.t.Context(), &all, client.InNamespace(h.namespace))).To(Succeed())
		return slices.ContainsFunc(all.Items, tells)
	}).WithPolling(10*pollInterval).Should(BeTrue(), reason)
}

// silentServers makes ScaledJobs whose servers take connections and say nothing: as many as the namespace may use, and
// as many again.
func (h *hostile) silentServers() course {
	h.t.Helper()
	var dialled atomic.Int64
	for i := range 2 * h.servers {
		var first sync.Once
		address := redistest.Listen(h.t, func(conn net.Conn) {
			first.Do(func() { dialled.Add(1) })
			_, _ = io.Copy(io.Discard, conn)
		})
		h.one("silent-"+strconv.Itoa(i)).Create(sjtest.At(address), sjtest.Polling(1))
	}
	h.Eventually(dialled.Load).Should(BeNumerically(">=", h.servers/2))
	return course{}
}

// floods makes ScaledJobs whose servers send notifications without end.
func (h *hostile) floods() course {
	h.t.Helper()
	var servers []*redistest.Scripted
	for i := range h.servers {
		server := must.Get(redistest.StartFlooding())(h)
		h.t.Cleanup(server.Close)
		h.one("flooding-" + strconv.Itoa(i)).Create(sjtest.At(server.Addr()))
		servers = append(servers, server)
	}
	for _, server := range servers {
		h.Eventually(server.Sent).ShouldNot(BeZero())
	}
	h.untilOneTells(scaledjobv1.ConditionNotificationsActive, scaledjobv1.ReasonTooManyNotifications)
	return course{}
}

// lyingClusters makes ScaledJobs of Clusters whose nodes have other slots each time that they are asked, and report so
// slowly and at length. At the end, few of them may ever have been asked at a time.
func (h *hostile) lyingClusters() course {
	h.t.Helper()
	var answers, asked, most atomic.Int64
	for i := range h.servers {
		server := redistest.NewScripted(h.t, func(args []string) string {
			switch {
			case args[0] != "cluster":
				return redistest.Usual
			case args[1] != "slots":
				return "+\r\n"
			}
			defer asked.Add(-1)
			now := asked.Add(1)
			for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
			}
			<-time.After(longAnswer)
			return changingSlots(answers.Add(1))
		})
		h.one("lying-"+strconv.Itoa(i)).Create(sjtest.At(""), func(spec *scaledjobv1.ScaledJobSpec) {
			spec.Redis = &scaledjobv1.Redis{Mode: scaledjobv1.RedisCluster, Addresses: []string{server.Addr()}}
		})
	}
	h.Eventually(most.Load).Should(BeNumerically(">=", askedAtOnce))
	h.t.Cleanup(func() {
		h.t.Logf("nodes of the hostile namespace answered %d times, at most %d at a time", answers.Load(), most.Load())
		// A node may still work on a question that the operator has given up.
		h.Expect(most.Load()).To(BeNumerically("<=", 4*askedAtOnce), "nodes of the hostile namespace that were asked at a time")
	})
	return course{}
}

// changingSlots returns a reply to CLUSTER SLOTS that differs from all others.
func changingSlots(number int64) string {
	const slots = 16384
	node := func(slot int64) string {
		id := fmt.Sprintf("%040d", number*slots+slot)
		return fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*3\r\n$9\r\n127.0.0.1\r\n:1\r\n$%d\r\n%s\r\n", slot, slot, len(id), id)
	}
	one := node(0)
	ranges := int64(largeReply / len(one))
	var reply strings.Builder
	fmt.Fprintf(&reply, "*%d\r\n", ranges)
	for slot := range ranges {
		reply.WriteString(node(slot))
	}
	return reply.String()
}

// comeAndGo has ScaledJobs come and go. What ends are hundreds of them.
func (h *hostile) comeAndGo() course {
	h.t.Helper()
	named := func(number int) *sjtest.ScaledJob { return h.scaledJob(fmt.Sprintf("passing-%d", number)) }
	all := &sjtest.Churn{
		Create:  func(ctx context.Context, number int) error { return named(number).Create(ctx) },
		Delete:  func(ctx context.Context, number int) error { return named(number).Delete(ctx) },
		Present: sized(100, 4), Total: h.passing,
	}
	ctx, stop := context.WithCancel(h.t.Context())
	var coming sync.WaitGroup
	coming.Go(func() {
		if err := all.Run(ctx); err != nil {
			h.t.Error(err)
		}
	})
	h.t.Cleanup(func() {
		stop()
		coming.Wait()
	})
	h.Eventually(all.Gone).ShouldNot(BeZero())
	reach := func(part, of int) {
		h.Eventually(all.Gone).WithTimeout(passingTimeout).Should(BeNumerically(">=", h.passing*part/of))
	}
	return course{ended: func() int { return all.Gone() / 100 }, reach: reach}
}

// immediate replaces running Jobs of an earlier template.
func immediate(spec *scaledjobv1.ScaledJobSpec) {
	spec.Rollout.Strategy = scaledjobv1.RolloutImmediate
}

// otherImage changes the template.
func otherImage(spec *scaledjobv1.ScaledJobSpec) {
	spec.JobTemplate.Spec.Template.Spec.Containers[0].Image += "-other"
}
