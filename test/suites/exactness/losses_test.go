// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/inject"
	"miracle.dev/scaledjob-operator/test/kit/jobwatch"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// Besides a burst there are ScaledJobs that want a single Job: a create sent twice is one too many there at once.
func TestAnswersGetLost(t *testing.T) {
	t.Parallel()
	const messages, singles = 20, 10
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace})
	wants := []want{{scaledJob: newScaledJob(t, namespace, "bursting", 1, messages), jobs: messages}}
	for i := range singles {
		wants = append(wants, want{scaledJob: newScaledJob(t, namespace, fmt.Sprintf("single-%d", i), 1, 1), jobs: 1})
	}
	for _, c := range wants {
		c.scaledJob.AwaitSubscription()
	}
	proxy.lag(longLag)
	losses := []*inject.Rule{
		{When: inject.After, Answer: inject.Status(http.StatusGatewayTimeout)},
		{When: inject.After, Answer: inject.Status(http.StatusServiceUnavailable, "Retry-After", "0")}, // The client library retries.
		{When: inject.Before, Answer: inject.Reset},
		{When: inject.After, Answer: inject.Reset},
	}
	for i, loss := range losses { // Every other create gets lost, in each of these ways in turn.
		loss.Match, loss.Skip, loss.Every = inject.CreatesJob, 1+2*i, 2*len(losses)
		proxy.Add(loss)
	}

	for _, c := range wants {
		c.scaledJob.PushTogether(messages)
	}
	requireExactly(t, operator, jobwatch.Row{
		Fault:   "every other create fails: before it is carried out, or after, by a reset, a timeout or a demand to come again",
		Promise: "a create that may have been carried out is sent again by the same name",
	}, wants...)
	for _, loss := range losses {
		g.Expect(loss.Hits()).To(BeNumerically(">", 0), "losses of each kind")
	}
}

// All creates under way are carried out, and answered by timeouts.
func TestTimeoutsInMidBatch(t *testing.T) {
	skip.UnderShort(t, "TestAnswersGetLost has time-outs too")
	t.Parallel()
	const messages, before = 60, createsAtOnce / 2
	g := NewWithT(t)
	s, proxy := newSingle(t, "bursting", 2*messages)
	// With a Job of its template there, the operator sends all at once.
	s.PushTogether(1)
	g.Expect(s.Jobs.AwaitCreated(t.Context(), 1)).To(Succeed())
	proxy.lag(longLag)
	// None of them is answered before they are together, or else the operator would send no others.
	late := proxy.Add(&inject.Rule{
		Match: inject.CreatesJob, Skip: before, Times: createsAtOnce, When: inject.Hold,
		Answer: inject.Status(http.StatusGatewayTimeout),
	})

	s.PushTogether(messages)
	g.Eventually(late.Held).WithTimeout(timeout).Should(Equal(createsAtOnce))
	g.Expect(late.Release()).To(Succeed())
	requireExactly(t, s.Operator, jobwatch.Row{
		Fault:   "all creates under way in mid-batch are carried out, but answered by timeouts, watches 0.5 s late",
		Promise: "what may have been created counts as created, and is sent again",
	}, want{scaledJob: s, jobs: 1 + messages})
	g.Expect(late.Codes()).To(ContainElement(http.StatusCreated), "creates that were carried out, and answered by timeouts")
}

// The operator starts, and meets a storm, while the API server is too busy for much of what it asks.
func TestRefusalsAtRandom(t *testing.T) {
	skip.UnderShort(t, "TestAnswersGetLost has each kind of failed create once")
	t.Parallel()
	g := NewWithT(t)
	proxy := startProxy(t)
	first, end := proxy.refuse()
	p := newPair(t, proxy)
	worked := newScaledJob(t, p.namespace, "worked", 1, 10)
	worked.AwaitSubscription()
	proxy.lag(longLag)

	finished := stormAndWorkBeside(t, worked, p.capped, p.growing)
	// However few the workers have done: enough finish for some to be pruned.
	g.Expect(worked.Jobs.AwaitCreated(t.Context(), 10+finished)).To(Succeed())
	g.Expect(worked.Jobs.Sync(t.Context())).To(Succeed())
	const more = 5
	for _, name := range worked.Jobs.Unfinished()[:more] {
		g.Expect(worked.finish(t.Context(), name)).To(Succeed())
	}
	for _, refused := range first {
		g.Eventually(refused.Hits).WithTimeout(timeout).Should(Equal(1), "refusals of each kind")
	}
	end()
	p.requireExactly(t, jobwatch.Row{
		Fault:   "a fifth of all requests is refused by 429, 500 or 503 in a storm, watches 0.5 s late",
		Promise: "nothing is decided on a failed list, and what was refused is tried again",
	}, want{scaledJob: worked, jobs: 10 + finished + more})
}

// refusalInterval is the mean number of requests to one that is refused.
const refusalInterval = 5

// refuse has requests about Jobs and ScaledJobs refused at random, and the first of each kind for certain, until end is
// called. First are the rules of the latter.
func (p *proxy) refuse() (first []*inject.Rule, end func()) {
	busy := inject.OneOf(
		inject.Status(http.StatusTooManyRequests), inject.Status(http.StatusTooManyRequests, "Retry-After", "1"),
		inject.Status(http.StatusServiceUnavailable), inject.Status(http.StatusServiceUnavailable, "Retry-After", "1"),
		inject.Status(http.StatusInternalServerError))
	about := func(request *http.Request) bool {
		return strings.Contains(request.URL.Path, "/jobs") || strings.Contains(request.URL.Path, "/scaledjobs")
	}
	for _, kind := range []struct {
		method string
		watch  bool
	}{{http.MethodPost, false}, {http.MethodDelete, false}, {http.MethodPatch, false}, {http.MethodGet, false}, {http.MethodGet, true}} {
		first = append(first, p.Add(&inject.Rule{Times: 1, Answer: busy, Match: func(request *http.Request) bool {
			return about(request) && request.Method == kind.method && inject.Watches(request) == kind.watch
		}}))
	}
	others := p.Add(&inject.Rule{Answer: busy, Match: func(request *http.Request) bool {
		return about(request) && rand.IntN(refusalInterval) == 0
	}})
	return first, others.End
}

const (
	// room is how many Jobs the quota allows.
	room = 5
	// fewCreates are those that make these Jobs, and one batch that is refused.
	fewCreates = room + createsAtOnce
)

// A quota has room for half of the Jobs. A thousand events per second must not make as many creates that are refused.
func TestQuota(t *testing.T) {
	t.Parallel()
	const due = 10
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	creates := proxy.countCreates()
	operator := startOperator(t, proxy, []string{namespace})
	setQuota(t, namespace, room)
	s := newScaledJob(t, namespace, "limited", 1, due)
	s.AwaitSubscription()
	proxy.lag(shortLag)

	g.Expect(s.storm(t.Context())).To(Succeed())
	s.awaitReason(scaledjobv1.ConditionScalingLimited, scaledjobv1.ReasonCreateRefused)
	g.Expect(s.Jobs.AwaitCreated(t.Context(), room)).To(Succeed())
	g.Expect(creates.Hits()).To(And(BeNumerically(">", room), BeNumerically("<=", fewCreates)), "creates in the storm")
	g.Expect(s.Jobs.Created()).To(Equal(room))

	setQuota(t, namespace, 10*due)
	s.Update(suspended(true)) // which ends the pause
	s.awaitReason(scaledjobv1.ConditionReady, scaledjobv1.ReasonSuspended)
	s.Update(suspended(false))
	requireExactly(t, operator, jobwatch.Row{
		Fault:   "a quota refuses half of the Jobs in a storm, then is raised",
		Promise: "what is refused is tried seldom, and comes when it may",
	}, want{scaledJob: s, jobs: due})
}

// While a namespace terminates, its Jobs go, and the operator sees nothing of the deletion of the ScaledJob.
func TestNamespaceTerminates(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	doomedNamespace := must.Get(control.CreateNamespace(t.Context(), "doomed"))(g)
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace, doomedNamespace})
	doomed := newSaturatedScaledJob(t, doomedNamespace, "doomed", operator)
	healthy := newScaledJob(t, namespace, "healthy", 40, 100)
	healthy.AwaitSubscription()
	release := hold(t, doomedNamespace)
	proxy.scaledJobs.Set(frozen)

	storms := beginStorms(t.Context(), doomed, healthy)
	terminating := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: doomedNamespace}}
	g.Expect(api.Delete(t.Context(), terminating)).To(Succeed())
	g.Eventually(doomed.Jobs.Unfinished).WithTimeout(timeout).Should(BeEmpty())
	g.Expect(storms.Wait()).To(Succeed())
	requireExactly(t, operator, jobwatch.Row{
		Fault:   "a namespace terminates in a storm, and watches of ScaledJobs do not show it",
		Promise: "nothing is created there, and the others go on",
	}, want{scaledJob: healthy, jobs: stormPushes / 40})
	g.Expect(doomed.Jobs.Created()).To(Equal(saturation))

	proxy.scaledJobs.Set(0)
	release()
	g.Eventually(api.Get).WithArguments(t.Context(), client.ObjectKeyFromObject(terminating), terminating).WithTimeout(timeout).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	doomed.Operator = operator
	g.Eventually(doomed.Reconciles).WithTimeout(timeout).Should(BeZero())
	g.Expect(doomed.Jobs.Created()).To(Equal(saturation))
}

// setQuota limits how many Jobs a namespace may hold, and returns once the limit is in force.
func setQuota(t *testing.T, namespace string, jobs int) {
	t.Helper()
	g := NewWithT(t)
	limit := resource.MustParse(strconv.Itoa(jobs))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "jobs"}}
	g.Expect(controllerutil.CreateOrUpdate(t.Context(), api, quota, func() error {
		quota.Spec.Hard = corev1.ResourceList{sjtest.JobCount: limit}
		return nil
	})).Error().NotTo(HaveOccurred())
	g.Eventually(func(g Gomega) {
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(quota), quota)).To(Succeed())
		g.Expect(quota.Status.Hard[sjtest.JobCount]).To(Equal(limit))
	}).WithTimeout(timeout).Should(Succeed())
}

// hold keeps a namespace from going until the returned function is called, which
// is at the end of the test at the latest.
func hold(t *testing.T, namespace string) (release func()) {
	t.Helper()
	g := NewWithT(t)
	keeper := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "keeper", Finalizers: []string{"test.batch.miracle.dev/keep"},
	}}
	g.Expect(api.Create(t.Context(), keeper)).To(Succeed())
	release = func() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		g.Expect(client.IgnoreNotFound(api.Patch(context.WithoutCancel(t.Context()), keeper, patch))).To(Succeed())
	}
	t.Cleanup(release)
	return release
}

func suspended(is bool) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) { spec.Suspend = is }
}

// awaitReason waits until the condition of this type has this reason.
func (s *scaledJob) awaitReason(kind, reason string) {
	s.TB.Helper()
	NewWithT(s.TB).Eventually(s.Condition).WithArguments(kind).WithTimeout(timeout).Should(HaveField("Reason", reason), s.Explain)
}

// slowCreates takes its time over the creates of Jobs in one namespace, as an admission webhook that is configured
// there does.
func (p *proxy) slowCreates(namespace string, delay time.Duration) {
	p.Add(&inject.Rule{Answer: inject.Delay(delay), Match: func(request *http.Request) bool {
		return inject.CreatesJob(request) && strings.Contains(request.URL.Path, "/"+namespace+"/")
	}})
}

// A slow admission webhook of one namespace must not keep the others waiting.
func TestSlowCreatesOfOneNamespaceDoNotHoldUpAnother(t *testing.T) {
	t.Parallel()
	const crowd = 40
	g := NewWithT(t)
	slow, other, through := newNamespace(t), newNamespace(t), startProxy(t)
	through.slowCreates(slow, 10*time.Second)
	startOperator(t, through, []string{slow, other})
	victim := newScaledJob(t, other, "victim", 1, 100, sjtest.Polling(sjtest.Never))
	victim.AwaitSubscription()
	var crowded []*scaledJob
	for i := range crowd {
		s := newScaledJob(t, slow, fmt.Sprintf("slow-%d", i), 1, 100)
		s.PushTogether(100)
		crowded = append(crowded, s)
	}
	// The creates of all these time out, and are sent again, at the same time as those of the victim.
	for i := range 10 {
		victim.PushTogether(1)
		g.Expect(victim.Jobs.AwaitCreated(t.Context(), i+1)).To(Succeed())
		g.Expect(sjtest.Pause(t.Context(), time.Second)).To(Succeed())
	}
	// Held up by the others, each would have waited for a minute.
	for _, s := range crowded {
		g.Expect(s.Jobs.Created()).To(BeNumerically("<", 100), "Jobs of the slow ones, by the time that the other has all of its own")
	}
}

const (
	// createsAtOnce is how many creates of a ScaledJob are under way at a time.
	createsAtOnce = 16
	// firstCreates are those before as many are under way as may be: 1, 2, 4, 8 and 16.
	firstCreates = 2*createsAtOnce - 1
	// createsPerReconcile is how many come from one look at its Jobs and its queue.
	createsPerReconcile = 512
)

// The operator dies with creates under way, and the API server carries them out only after the next operator has
// created what it takes to be missing. They are not the last that were sent, so that the next one sees Jobs that came
// after them.
func TestCreatesCarriedOutAfterTheNextOperator(t *testing.T) {
	t.Parallel()
	const messages = 100
	g := NewWithT(t)
	s, proxy := newSingle(t, "bursting", messages)
	late := proxy.holdCreates(firstCreates, 2)

	s.PushTogether(messages)
	g.Eventually(late.Held).WithTimeout(timeout).Should(BeNumerically(">=", createsAtOnce))
	g.Expect(s.Operator.Kill()).To(Succeed())
	g.Eventually(late.Abandoned).WithTimeout(timeout).Should(BeNumerically(">=", createsAtOnce))
	g.Expect(s.Jobs.Created()).To(BeNumerically("<", messages-createsAtOnce), "Jobs at the moment of the kill")

	next := startOperator(t, startProxy(t), []string{s.Namespace})
	g.Eventually(s.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", messages))
	g.Expect(late.Release()).To(Succeed())
	requireExactly(t, next, jobwatch.Row{
		Fault:   "kill -9 with 16 creates under way, which are carried out once the next operator is done",
		Promise: "the next operator takes their names first, so that they fail",
	}, want{scaledJob: s, jobs: messages})
}

// The same in a storm, with Jobs that finish and are deleted all the time: their
// names are missing as well, below those of the creates under way.
func TestCreatesOfAStormCarriedOutAfterTheNextOperator(t *testing.T) {
	skip.UnderShort(t, "TestCreatesCarriedOutAfterTheNextOperator is the same with fewer messages")
	t.Parallel()
	g := NewWithT(t)
	s, proxy := newSingle(t, "worked", saturation)
	proxy.lag(longLag)

	stopWork := putToWork(t, s)
	g.Eventually(s.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", 4*saturation))
	late := proxy.holdCreates(0, 1)
	g.Eventually(late.Held).WithTimeout(timeout).Should(BeNumerically(">", 0))
	g.Expect(s.Operator.Kill()).To(Succeed())
	finished := stopWork()

	next := startOperator(t, startProxy(t), []string{s.Namespace})
	g.Eventually(s.Jobs.Created).WithTimeout(timeout).Should(BeNumerically(">=", saturation+finished))
	g.Expect(late.Release()).To(Succeed())
	requireExactly(t, next, jobwatch.Row{
		Fault: "kill -9 in a storm with creates under way, which are carried out once the next operator is done," +
			" after older Jobs were deleted",
		Promise: "the next operator takes their names first, so that they fail",
	}, want{scaledJob: s, jobs: saturation + finished})
}
