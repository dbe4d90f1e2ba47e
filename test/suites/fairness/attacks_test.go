// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package fairness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/webhook"
)

// attack is the worst that a namespace does in one way.
type attack struct {
	name string
	// begin begins it, and returns when the operator is hit. It goes on until the test ends. The result returns how
	// often something of it has come to its end, such as a request that was given up; nil if nothing of it ends.
	begin func(h *hostile) (ended func() int)
}

// hostile is a namespace that does its worst.
type hostile struct {
	Gomega
	t         *testing.T
	namespace string
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	return &hostile{Gomega: NewWithT(t), t: t, namespace: shared.Cluster.NewNamespace(t, "hostile")}
}

// crowd creates so many ScaledJobs with these changes, whose names begin with name.
func (h *hostile) crowd(name string, count int, changes ...scene.Change) (all []*scene.Test) {
	h.t.Helper()
	for i := range count {
		each := h.one(fmt.Sprintf("%s-%d", name, i))
		each.Create(changes...)
		all = append(all, each)
	}
	return all
}

// webhook runs a webhook of the namespace until the test ends.
func (h *hostile) webhook(of webhook.Rule, answer webhook.Answer) *webhook.Webhook {
	h.t.Helper()
	w, err := webhook.Start(h.t.Context(), shared.API, h.namespace, of, answer)
	h.Expect(err).NotTo(HaveOccurred())
	h.t.Cleanup(func() { h.Expect(w.Stop(context.WithoutCancel(h.t.Context()))).To(Succeed()) })
	return w
}

func (h *hostile) one(name string) *scene.Test {
	return scene.NewTest(h.t, timeout, &scene.ScaledJob{
		API: shared.API, Redis: redis.Client(), Address: redis.Addr(), Operator: running,
		Namespace: h.namespace, Name: name, Queue: h.namespace + ":" + name,
	})
}

// atOnce is how many Jobs of one ScaledJob the operator creates or deletes at a time.
const atOnce = 16

// crowded is more ScaledJobs than the operator reconciles at a time.
const crowded = 2 * workers

// attacks returns all of them.
func attacks() []attack {
	return []attack{
		{"dry runs hang", func(h *hostile) func() int {
			w := h.webhook(webhook.CreateJob, webhook.Hang)
			h.crowd("empty", crowded)
			return h.untilHeld(w, workers/4)
		}},
		{"creates hang", func(h *hostile) func() int {
			w := h.webhook(webhook.CreateJob, webhook.Hang)
			all := h.crowd("full", crowded)
			for _, each := range all {
				each.PushTogether(100)
			}
			h.untilOneTells(all, scaledjobv1.ConditionScalingLimited, scaledjobv1.ReasonCreatesWaiting)
			return h.untilHeld(w, atOnce*workers/2)
		}},
		{"deletes hang", func(h *hostile) func() int {
			all := h.crowd("replacing", crowded, immediate)
			for _, each := range all {
				each.PushTogether(2)
				h.Eventually(func() int32 { return each.Status().ActiveJobs }).Should(BeEquivalentTo(2), each.Explain)
				each.AwaitTemplateChecked()
			}
			w := h.webhook(webhook.DeleteJob, webhook.Hang)
			for _, each := range all {
				each.Update(otherImage)
			}
			return h.untilHeld(w, atOnce*workers/4)
		}},
		{"status writes hang", func(h *hostile) func() int {
			w := h.webhook(webhook.UpdateStatus, webhook.Hang)
			for _, each := range h.crowd("written", crowded) {
				each.PushTogether(1)
			}
			return h.untilHeld(w, workers*3/8)
		}},
		{"creates are refused by 429", refusing(429)},
		{"creates are refused by 403", refusing(403)},
		{"creates are answered by lies", func(h *hostile) func() int {
			w := h.webhook(webhook.CreateJob, webhook.Lie)
			return h.busy(w)
		}},
		{"servers are silent", func(h *hostile) func() int {
			h.silentServers(4 * shareOfServers)
			return nil
		}},
		{"servers flood", func(h *hostile) func() int {
			return h.floods(shareOfServers)
		}},
		{"ScaledJobs come and go", func(h *hostile) func() int {
			return h.comeAndGo()
		}},
	}
}

func refusing(code int32) func(h *hostile) func() int {
	return func(h *hostile) func() int {
		return h.busy(h.webhook(webhook.CreateJob, webhook.Refuse(code)))
	}
}

// busy lets many ScaledJobs have messages. What ends then tells nothing: it ends at once.
func (h *hostile) busy(w *webhook.Webhook) func() int {
	for _, each := range h.crowd("refused", crowded) {
		each.PushTogether(100)
	}
	h.Eventually(func() int {
		return w.Counts().Ended
	}).Should(BeNumerically(">=", crowded))
	return nil
}

// untilHeld waits until the webhook has requests that wait, and returns what counts those that were given up. At the end,
// no more may ever have waited at a time than the share of the namespace.
func (h *hostile) untilHeld(w *webhook.Webhook, share int) func() int {
	h.t.Helper()
	h.Eventually(func() int { return w.Counts().Waiting }).Should(BeNumerically(">=", 1))
	h.t.Cleanup(func() {
		most := w.Counts().Most
		h.t.Logf("at most %d requests of the hostile namespace waited at a time", most)
		h.Expect(most).To(BeNumerically("<=", share), "requests of the hostile namespace that waited at a time")
	})
	return func() int { return w.Counts().Ended }
}

// untilOneTells waits until one of the ScaledJobs has a condition with this reason.
func (h *hostile) untilOneTells(all []*scene.Test, kind, reason string) {
	h.t.Helper()
	h.Eventually(func() bool {
		return slices.ContainsFunc(all, func(each *scene.Test) bool {
			condition := each.Condition(kind)
			return condition != nil && condition.Reason == reason
		})
	}).WithPolling(time.Second).Should(BeTrue(), reason)
}

// silentServers makes ScaledJobs whose servers take connections and say nothing.
func (h *hostile) silentServers(count int) {
	h.t.Helper()
	var dialled sync.Map
	for i := range count {
		address := redistest.Listen(h.t, func(conn net.Conn) {
			dialled.Store(i, true)
			_, _ = io.Copy(io.Discard, conn)
		})
		h.one(fmt.Sprintf("silent-%d", i)).Create(scene.At(address), scene.Polling(1))
	}
	h.Eventually(func() (servers int) {
		dialled.Range(func(any, any) bool { servers++; return true })
		return servers
	}).Should(BeNumerically(">=", shareOfServers))
}

// floods makes ScaledJobs whose servers send notifications without end. It returns how many thousands were sent.
func (h *hostile) floods(count int) func() int {
	h.t.Helper()
	var mu sync.Mutex
	thousands := 0
	var all []*scene.Test
	for i := range count {
		address := redistest.Listen(h.t, func(conn net.Conn) {
			flood(conn, func() {
				mu.Lock()
				defer mu.Unlock()
				thousands++
			})
		})
		each := h.one(fmt.Sprintf("flooding-%d", i))
		each.Create(scene.At(address))
		all = append(all, each)
	}
	sent := func() int {
		mu.Lock()
		defer mu.Unlock()
		return thousands
	}
	h.Eventually(sent).Should(BeNumerically(">=", count))
	h.untilOneTells(all, scaledjobv1.ConditionNotificationsActive, scaledjobv1.ReasonTooManyNotifications)
	return nil
}

// flood plays a Redis that announces growth of whatever is subscribed to, as fast as the operator reads.
func flood(conn net.Conn, sentThousand func()) {
	reader := bufio.NewReader(conn)
	for {
		args, err := redistest.ReadCommand(reader)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, redistest.UsualAnswer(args)); err != nil {
			return
		}
		if args[0] != "subscribe" {
			continue
		}
		const many = 1000
		messages := strings.Repeat(redistest.Push("message", args[1], "lpush"), many)
		for {
			if _, err := io.WriteString(conn, messages); err != nil {
				return
			}
			sentThousand()
		}
	}
}

// comeAndGo creates and deletes ScaledJobs until the test ends.
func (h *hostile) comeAndGo() func() int {
	h.t.Helper()
	ctx, stop := context.WithCancel(h.t.Context())
	var coming sync.WaitGroup
	var mu sync.Mutex
	gone := 0
	const several = 4
	for worker := range several {
		coming.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				each := &scene.ScaledJob{
					API: shared.API, Redis: redis.Client(), Address: redis.Addr(),
					Namespace: h.namespace, Name: fmt.Sprintf("passing-%d-%d", worker, i), Queue: h.namespace + ":passing",
				}
				if each.Create(ctx) != nil || each.Delete(ctx) != nil {
					continue
				}
				mu.Lock()
				gone++
				mu.Unlock()
			}
		})
	}
	h.t.Cleanup(func() {
		stop()
		coming.Wait()
	})
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return gone
	}
	h.Eventually(count).Should(BeNumerically(">=", 100))
	return nil
}

// immediate replaces running Jobs of an earlier template.
func immediate(spec *scaledjobv1.ScaledJobSpec) {
	spec.Rollout.Strategy = scaledjobv1.RolloutImmediate
}

// otherImage changes the template.
func otherImage(spec *scaledjobv1.ScaledJobSpec) {
	spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "other"
}
