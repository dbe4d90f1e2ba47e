// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/workers"
)

const (
	crewMessages = 30
	crewLimit    = 8
	mostAtOnce   = 6
	longestGap   = time.Second
	// claimGrace is longer than a worker of these takes from when it is ready until it
	// has its message, unless the machine stands still.
	claimGrace = 2 * time.Second
)

var (
	// crewPace has some Jobs work for longer than claimGrace.
	crewPace = workers.Pace{
		StartUp: workers.Span{Most: 400 * time.Millisecond},
		Claim:   workers.Span{Most: 200 * time.Millisecond},
		Work:    workers.Span{Most: 3 * time.Second},
	}
	// endlessPace has nobody get done.
	endlessPace = workers.Pace{Work: workers.Span{Least: time.Hour, Most: time.Hour}}
)

// crew is a ScaledJob under test, of which each Job is for one message, with workers of one kind.
type crew struct {
	*workers.Staff

	scaledJob *scaledJob
	ended     chan error // of the workers
}

// newCrew makes a ScaledJob with workers, who are at work until the test ends.
func newCrew(
	t *testing.T, namespace, name string, pace workers.Pace, kind workers.Kind, adjust ...func(*scaledjobv1.ScaledJobSpec),
) *crew {
	t.Helper()
	s := newScaledJob(t, namespace, name, 1, crewLimit, append(adjust, kind.Count)...)
	s.CountPushed(crewMessages) // Never more than the limit may be unfinished, and as many as that at any time.
	c := &crew{
		Staff:     &workers.Staff{Kind: kind, Pace: pace, API: api, Namespace: namespace, Jobs: s.Jobs},
		scaledJob: s,
		ended:     make(chan error, 1),
	}
	go func() { c.ended <- c.Work(t.Context()) }()
	t.Cleanup(func() { NewWithT(t).Expect(<-c.ended).To(Succeed()) })
	return c
}

// newCrews makes one for each way to count what is exact.
func newCrews(t *testing.T, namespace string, pace workers.Pace) []*crew {
	t.Helper()
	stream := must.Get(workers.ConsumerGroup(t.Context(), redis.Client(), namespace+":stream"))(NewWithT(t))
	return []*crew{
		newCrew(t, namespace, "reliable-list", pace, workers.ReliableList(redis.Client(), namespace+":reliable")),
		newCrew(t, namespace, "consumer-group", pace, stream),
		newCrew(t, namespace, "remove-at-end", pace, workers.RemoveAtEnd(redis.Client(), namespace+":remove")),
		newCrew(t, namespace, "pop-at-start", pace, workers.PopAtStart(redis.Client(), namespace+":pop"), accurately(claimGrace)),
	}
}

// accurately has a Job count as one that has its message after this time.
func accurately(grace time.Duration) func(*scaledjobv1.ScaledJobSpec) {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		seconds := int32(grace / time.Second)
		spec.ScalingStrategy = scaledjobv1.ScalingStrategy{
			Type: scaledjobv1.StrategyAccurate, ClaimGraceSeconds: &seconds,
		}
	}
}

// push brings all messages, a few at a time.
func (c *crew) push(ctx context.Context) error {
	for left := crewMessages; left > 0; {
		if err := sjtest.Pause(ctx, rand.N(longestGap)); err != nil {
			return err
		}
		few := min(left, 1+rand.IntN(mostAtOnce))
		if err := c.Push(ctx, few); err != nil {
			return err
		}
		left -= few
	}
	return nil
}

// pushAll has the messages of all come at the same time.
func pushAll(ctx context.Context, crews []*crew) *errgroup.Group {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range crews {
		group.Go(func() error { return c.push(ctx) })
	}
	return group
}

// awaitWorkedOff waits until the workers have finished all messages, and all Jobs have.
func (c *crew) awaitWorkedOff(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	name := c.scaledJob.Object.Name
	g.Eventually(c.Served).WithTimeout(timeout).Should(Equal(crewMessages), "messages that were served for %s", name)
	g.Eventually(c.scaledJob.Jobs.Unfinished).WithTimeout(timeout).Should(BeEmpty(), "Jobs of %s", name)
}

// faults are what must not have happened and did. So many Jobs may have found nothing.
// They are looked for once the watch has shown all.
func (c *crew) faults(t *testing.T, mayWaste int) (found []string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(c.scaledJob.Jobs.Sync(t.Context())).To(Succeed())
	note := func(is bool, format string, args ...any) {
		if is {
			found = append(found, c.scaledJob.Object.Name+": "+fmt.Sprintf(format, args...))
		}
	}
	left := must.Get(c.Kind.Left(t.Context()))(g)
	created, wasted, late := c.scaledJob.Jobs.Created(), c.Wasted(), c.Late(claimGrace)
	note(created != crewMessages+wasted, "%d Jobs created for %d messages, and %d found none", created, crewMessages, wasted)
	note(wasted > mayWaste, "%d Jobs found no message, where %d may", wasted, mayWaste)
	note(len(c.Repeated()) > 0, "messages were taken more than once: %v", c.Repeated())
	note(c.Served() != crewMessages || left > 0, "%d messages were served, and %d are left", c.Served(), left)
	note(len(c.scaledJob.Jobs.Unfinished()) > 0, "Jobs are unfinished: %v", c.scaledJob.Jobs.Unfinished())
	note(c.scaledJob.Jobs.Violation() != "", "%s", c.scaledJob.Jobs.Violation())
	t.Logf("%s: %d Jobs, %d found no message, %d were late to take one", c.scaledJob.Object.Name, created, wasted, late)
	return found
}

// mayWaste is how many Jobs of the crew may find nothing. Where a message is counted until it is done, none may. Else
// there may be one for each that is late to take its message.
func (c *crew) mayWaste() int {
	if c.scaledJob.Object.Spec.ScalingStrategy.Type == scaledjobv1.StrategyAccurate {
		return c.Late(claimGrace)
	}
	return 0
}

// Workers of each kind come and go as messages come, and each message gets one Job.
func TestOneJobForEachMessage(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := newPlant(t, crewPace)
	pushing := pushAll(t.Context(), p.crews)
	p.replaceOperator(t)
	g.Expect(pushing.Wait()).To(Succeed())
	for _, c := range p.crews {
		c.awaitWorkedOff(t)
	}
	resting, ctx := errgroup.WithContext(t.Context())
	for _, c := range p.crews {
		resting.Go(func() error { return c.scaledJob.rest(ctx, p.operator) })
	}
	g.Expect(resting.Wait()).To(Succeed())
	var faults []string
	for _, c := range p.crews {
		faults = append(faults, c.faults(t, c.mayWaste())...)
	}
	g.Expect(faults).To(BeEmpty())
}

// plant is where crews are at work for one operator.
type plant struct {
	namespace string
	proxy     *proxy
	operator  *operator.Operator
	crews     []*crew
}

func newPlant(t *testing.T, pace workers.Pace) *plant {
	t.Helper()
	p := &plant{namespace: newNamespace(t), proxy: startProxy(t)}
	p.operator = startOperator(t, p.proxy, []string{p.namespace})
	p.crews = newCrews(t, p.namespace, pace)
	return p
}

// replaceOperator kills the operator in the midst of the work and starts another.
func (p *plant) replaceOperator(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	p.proxy.lag(shortLag)
	g.Eventually(p.crews[0].scaledJob.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", crewMessages/3))
	g.Expect(p.operator.Kill()).To(Succeed())
	g.Expect(p.crews[0].scaledJob.Jobs.Created()).To(BeNumerically("<", crewMessages), "Jobs at the moment of the kill")
	p.operator = startOperator(t, p.proxy, []string{p.namespace})
}

// Messages get Jobs of their own although all Jobs that there are have much to do.
func TestJobsComeWhileOthersWork(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	p := newPlant(t, endlessPace)
	for _, jobs := range []int{crewLimit / 2, crewLimit} {
		for _, c := range p.crews {
			g.Expect(c.Push(t.Context(), crewLimit/2)).To(Succeed())
		}
		for _, c := range p.crews {
			g.Eventually(c.Taken).WithTimeout(timeout).Should(Equal(jobs), "messages that were taken of %s", c.scaledJob.Object.Name)
		}
	}
}

// The control of the one before: with the messages that wait, and no others, no Job is due while as many work.
func TestControlCountOfWaitingMessagesAlone(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := newNamespace(t)
	by := startOperator(t, startProxy(t), []string{namespace})
	// No worker may take a message before all wait.
	c := newCrew(t, namespace, "waiting", endlessPace, workers.PopAtStart(redis.Client(), namespace+":queue"), suspended(true))
	g.Expect(c.Push(t.Context(), crewLimit/2)).To(Succeed())
	c.scaledJob.Update(suspended(false))
	g.Eventually(c.Taken).WithTimeout(timeout).Should(Equal(crewLimit / 2))
	g.Expect(c.Push(t.Context(), crewLimit/2)).To(Succeed())
	c.scaledJob.awaitReconciles(by, restReconciles)
	g.Expect(c.scaledJob.Jobs.Sync(t.Context())).To(Succeed())
	g.Expect(c.scaledJob.Jobs.Created()).To(Equal(crewLimit / 2))
}

// The negative control: the operator assumes that workers take their messages sooner than they do. The first message
// gets a second Job before a worker takes it, and the waste is found.
func TestControlGraceThatIsTooShort(t *testing.T) {
	t.Parallel()
	g, namespace := NewWithT(t), newNamespace(t)
	startOperator(t, startProxy(t), []string{namespace})
	kind := hesitant{workers.PopAtStart(redis.Client(), namespace+":queue"), make(chan struct{})}
	c := newCrew(t, namespace, "hasty", workers.Pace{}, kind, accurately(0))
	g.Expect(c.Push(t.Context(), 1)).To(Succeed())
	g.Eventually(c.scaledJob.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">", 1))
	close(kind.may)
	g.Eventually(c.Wasted).WithTimeout(timeout).ShouldNot(BeZero())
	g.Expect(c.Push(t.Context(), crewMessages-1)).To(Succeed())
	c.awaitWorkedOff(t)
	// More surplus Jobs may follow, and the last one may be unfinished.
	g.Expect(c.faults(t, 0)).To(ContainElement(ContainSubstring("found no message")))
}

// hesitant workers are ready, and take no message before they may.
type hesitant struct {
	workers.Kind

	may chan struct{}
}

func (k hesitant) Take(ctx context.Context, worker string) (workers.Message, bool, error) {
	select {
	case <-k.may:
		return k.Kind.Take(ctx, worker)
	case <-ctx.Done():
		return workers.Message{}, false, ctx.Err()
	}
}

// pods is how many Pods a Job has.
const pods = 3

// Jobs of several Pods count as one each.
func TestJobsOfSeveralPods(t *testing.T) {
	t.Parallel()
	const before, after = 4, 3
	g := NewWithT(t)
	s, proxy := newSingle(t, "worked", saturation, func(spec *scaledjobv1.ScaledJobSpec) {
		job := &spec.JobTemplate.Spec
		job.ManagedBy, job.CompletionMode = nil, new(batchv1.IndexedCompletion)
		job.Completions, job.Parallelism = new(int32(pods)), new(int32(pods))
	})
	proxy.lag(longLag)
	s.PushTogether(3 * saturation)
	g.Eventually(s.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", saturation))
	for range before {
		s.finishPods(t)
	}
	g.Expect(s.Operator.Kill()).To(Succeed())
	next := startOperator(t, proxy, []string{s.Namespace})
	for range after {
		s.finishPods(t)
	}
	requireExactly(t, next, jobwatch.Row{
		Fault:   "Indexed Jobs finish, watches 0.5 s late; kill -9",
		Promise: "each Job counts as one, however many Pods it has",
	}, want{scaledJob: s, jobs: saturation + before + after})
}

// finishPods has all Pods of the first unfinished Job succeed.
func (s *scaledJob) finishPods(t *testing.T) {
	t.Helper()
	g, name := NewWithT(t), s.Jobs.Unfinished()[0]
	g.Expect(s.take(t.Context())).To(Succeed())
	var list corev1.PodList
	g.Eventually(func() ([]corev1.Pod, error) {
		err := api.List(t.Context(), &list, client.InNamespace(s.Namespace), client.MatchingLabels{batchv1.JobNameLabel: name})
		return list.Items, err
	}).WithTimeout(timeout).WithPolling(pollInterval).Should(HaveLen(pods))
	succeed := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))
	for i := range list.Items {
		g.Expect(api.Status().Patch(t.Context(), &list.Items[i], succeed)).To(Succeed())
	}
	g.Eventually(s.Jobs.Unfinished).WithTimeout(timeout).ShouldNot(ContainElement(name))
}
