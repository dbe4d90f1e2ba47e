// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// TestModel runs the Reconciler through random sequences of events, and compares the result with a model that knows the
// complete state: see machine. A failure reports the seed; -rapid.seed=N repeats it, and -rapid.checks=N sets the
// number of runs.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			m := newMachine(weakness{})
			m.run(t)
			if m.broken != nil {
				t.Fatalf("%v\n%s", m.broken, m.server.history())
			}
		})
	})
}

// TestModelFindsWeaknesses is the negative control: the same machine must detect an operator that lacks one of its
// safeguards.
func TestModelFindsWeaknesses(t *testing.T) {
	t.Parallel()
	const seeds = 300
	for name, c := range map[string]struct {
		weak  weakness
		known int // A seed that has shown the weakness. It is tried first.
	}{
		"counts on a cache that lags":                    {weakness{gateOpen: true, namesAtRandom: true}, 0},
		"sends a create again by another name":           {weakness{namesAtRandom: true}, 0},
		"counts on a cache that lags, but names by rule": {weakness{gateOpen: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range seeds {
				seed := (c.known + i) % seeds
				if broken := runOnce(t, seed, c.weak); broken != nil {
					t.Logf("seed %d: %v", seed, broken)
					return
				}
			}
			t.Errorf("the machine found no violation in %d runs", seeds)
		})
	}
}

// runOnce runs the machine with this seed and returns the violation that it finds.
func runOnce(t *testing.T, seed int, weak weakness) (broken error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		broken = rapid.Custom(func(t *rapid.T) error {
			m := newMachine(weak)
			m.run(t)
			return m.broken
		}).Example(seed)
	})
	return broken
}

// machine is one run: an API server, a queue, one or two operators, and users, who act in random order. It checks these
// invariants:
//
//   - After an action, the number of unfinished Jobs, plus the creates in flight that will create some, is at most the
//     number of Jobs that are due by the ScaledJob as the operator sees it and the depth at that moment. There may be
//     more only if there were more before, because the depth fell or a limit was lowered. The decisions of a previous
//     leader count as due until its creates are carried out: they are in flight whatever the depth is by then, and no
//     operator can know them.
//   - No operator deletes an unfinished Job, or another Job than the intended one.
//   - At the end, after faults are over and time has passed, the number of Jobs is exactly the number due, old Jobs are
//     pruned, the status is correct, and another reconcile creates nothing.
type machine struct {
	t      *rapid.T
	server *apiServer
	weak   weakness
	// leader is the active operator. former is an operator that has not noticed yet that it no longer leads; nil if
	// there is none.
	leader, former *operatorProcess
	depth          int64
	unreadable     error
	// meanwhile is called once in the next reconcile, after it has counted the Jobs and before it reads the depth.
	meanwhile func(*rapid.T)
	// owners are the UIDs of all ScaledJobs so far. For each, committed is the number of Jobs at the last check, due is
	// the largest number that a decision since then could want, and decided is the largest number that a decision
	// behind the creates in flight could want.
	owners    []types.UID
	committed map[types.UID]int
	due       map[types.UID]int
	decided   map[types.UID]int
	broken    error
}

func newMachine(weak weakness) *machine {
	m := &machine{
		server: newAPIServer(), weak: weak, committed: map[types.UID]int{}, due: map[types.UID]int{}, decided: map[types.UID]int{},
	}
	m.recreate()
	m.leader = m.start(0, 0)
	return m
}

// run runs random actions, and then settles.
func (m *machine) run(t *rapid.T) {
	const rounds = 3 // A round has -rapid.steps actions, 30 on average.
	for range rounds {
		t.Repeat(m.guarded(map[string]func(*rapid.T){
			"push":              m.push,
			"pop":               m.pop,
			"finish Jobs":       m.finish,
			"collect garbage":   m.collectGarbage,
			"wait":              m.wait,
			"catch up":          m.catchUp,
			"pass":              m.reconcileLeader,
			"pass after pass":   m.reconcileRepeatedly,
			"pass among faults": m.reconcileWithFaults,
			"pass of another":   m.reconcileFormer,
			"user": oneOf(map[string]func(*rapid.T){
				"delete a Job": m.deleteJob, "touch a Job": m.touchJob, "take a name": m.takeName, "edit": m.edit,
				"delete the ScaledJob": m.deleteScaledJob,
			}),
			"operator": oneOf(map[string]func(*rapid.T){"crash": m.crash, "overlap": m.overlap, "end the overlap": m.endOverlap}),
			"weather":  oneOf(map[string]func(*rapid.T){"break": m.breakSomething, "mend": m.mend}),
		}))
	}
	if m.broken == nil {
		m.settle(t)
	}
}

// guarded wraps the actions: each is followed by a check, and is skipped after a failure.
func (m *machine) guarded(acts map[string]func(*rapid.T)) map[string]func(*rapid.T) {
	guarded := map[string]func(*rapid.T){}
	for name, act := range acts {
		guarded[name] = func(t *rapid.T) {
			if m.broken == nil {
				act(t)
				m.check()
			}
		}
	}
	return guarded
}

// oneOf runs one of the actions.
func oneOf(acts map[string]func(*rapid.T)) func(*rapid.T) {
	names := slices.Sorted(maps.Keys(acts))
	return func(t *rapid.T) { acts[rapid.SampledFrom(names).Draw(t, "act")](t) }
}

// check compares the number of Jobs with the allowed number.
func (m *machine) check() {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	m.server.carryOutLate()
	m.broken = errors.Join(append([]error{m.broken}, m.server.faults...)...)
	for _, owner := range m.owners {
		underWay, orphaned := m.server.underWay(owner)
		if !underWay {
			m.decided[owner] = 0
		}
		m.decided[owner] = max(m.decided[owner], m.due[owner])
		before, due, now := m.committed[owner], m.due[owner], m.server.committed(owner)
		if orphaned {
			due = m.decided[owner]
		}
		if now > max(before, due) {
			m.broken = errors.Join(m.broken, fmt.Errorf(
				"%d Jobs of %s: %d existed before, and at most %d are due", now, owner, before, due))
		}
		m.committed[owner] = now
	}
	clear(m.due)
}

// start starts an operator whose caches show the given numbers of changes.
func (m *machine) start(jobsSeen, sjSeen int) *operatorProcess {
	return newOperatorProcess(m.server, jobsSeen, sjSeen, m.weak, m.readDepth)
}

// readDepth returns the depth to an operator, and records how many Jobs are due by the ScaledJob that it sees.
func (m *machine) readDepth(p *operatorProcess) (int64, error) {
	if act := m.meanwhile; act != nil {
		m.meanwhile = nil
		act(m.t)
	}
	if m.unreadable != nil {
		return 0, m.unreadable
	}
	sj := p.reading
	m.due[sj.UID] = max(m.due[sj.UID], dueOf(&sj.Spec, m.depth))
	return m.depth, nil
}

// dueOf returns the number of Jobs that are due.
func dueOf(spec *scaledjobv1.ScaledJobSpec, depth int64) int {
	due := 0
	if depth > spec.ActivationThreshold {
		due = int((depth + spec.Threshold - 1) / spec.Threshold)
	}
	return min(max(due, int(spec.MinReplicas)), int(*spec.MaxReplicas))
}

func (m *machine) push(t *rapid.T) {
	m.depth += rapid.Int64Range(1, 120).Draw(t, "messages")
	if rapid.Bool().Draw(t, "heard") {
		m.leader.watcher.state.LastEvent = time.Now()
	}
}

func (m *machine) pop(t *rapid.T) {
	m.depth -= rapid.Int64Range(0, m.depth).Draw(t, "messages")
	if rapid.Bool().Draw(t, "heard") {
		m.leader.watcher.state.LastEnd = time.Now()
	}
}

// pick draws one of the ScaledJob's Jobs that match; nil if there is none.
func (m *machine) pick(t *rapid.T, asked func(*batchv1.Job) bool) *batchv1.Job {
	owner := rapid.SampledFrom(m.owners).Draw(t, "owner")
	found := m.server.owned(owner, asked)
	if len(found) == 0 {
		return nil
	}
	return rapid.SampledFrom(found).Draw(t, "job")
}

func (m *machine) finish(t *rapid.T) {
	for range rapid.IntRange(1, 5).Draw(t, "count") {
		kind := rapid.SampledFrom([]batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}).Draw(t, "kind")
		if job := m.pick(t, unfinished); job != nil {
			m.server.finish(job.Name, kind)
		}
	}
}

// deleteJob deletes a Job, like a user or the TTL controller. It does nothing while the API server is protected: see
// apiServer.protected. The same is true until the leader has seen the late creates of the operators before it: until
// then it may use the name of the deleted Job for a message that has one of those Jobs.
func (m *machine) deleteJob(t *rapid.T) {
	protected := m.server.protected() || m.leader.jobsSeen < m.server.inherited
	if job := m.pick(t, anyJob); job != nil && !protected {
		m.server.remove(job.Name)
	}
}

// touchJob removes the ordinal of a Job, marks it as terminating, or removes its owner reference, like a user.
func (m *machine) touchJob(t *rapid.T) {
	job := m.pick(t, anyJob)
	if job == nil {
		return
	}
	touches := map[string]func(*batchv1.Job){
		"unmark":    func(job *batchv1.Job) { delete(job.Annotations, scaledjobv1.AnnotationOrdinal) },
		"terminate": func(job *batchv1.Job) { job.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"release":   func(job *batchv1.Job) { job.OwnerReferences = nil },
	}
	m.server.update(job.Name, touches[rapid.SampledFrom([]string{"release", "terminate", "unmark"}).Draw(t, "touch")])
}

// takeName creates a Job of another owner that has the name of a future Job, like a user.
func (m *machine) takeName(t *rapid.T) {
	owner := rapid.SampledFrom(m.owners).Draw(t, "owner")
	ordinal := rapid.Int64Range(1, 60).Draw(t, "ordinal")
	_ = m.server.create(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: emails.Namespace, Name: jobs.Name(emails.Name, owner, ordinal),
	}}) // An existing Job keeps the name.
}

func (m *machine) edit(t *rapid.T) {
	if m.server.scaledJob == nil {
		return
	}
	sj := m.server.scaledJob.DeepCopy()
	edits := []func(){
		func() { sj.Spec.MaxReplicas = new(rapid.Int32Range(0, 30).Draw(t, "maxReplicas")) },
		func() { sj.Spec.MinReplicas = rapid.Int32Range(0, 5).Draw(t, "minReplicas") },
		func() { sj.Spec.Threshold = rapid.Int64Range(1, 20).Draw(t, "threshold") },
		func() { sj.Spec.ActivationThreshold = rapid.Int64Range(0, 40).Draw(t, "activationThreshold") },
		func() { sj.Spec.Suspend = !sj.Spec.Suspend },
		func() {
			sj.Spec.SuccessfulJobsHistoryLimit = new(rapid.Int32Range(0, 4).Draw(t, "succeeded"))
			sj.Spec.FailedJobsHistoryLimit = new(rapid.Int32Range(0, 4).Draw(t, "failed"))
		},
		func() {
			image := rapid.SampledFrom([]string{"worker:1", "worker:2"}).Draw(t, "image")
			sj.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = image
		},
	}
	edits[rapid.IntRange(0, len(edits)-1).Draw(t, "edit")]()
	sj.Generation++
	m.server.storeScaledJob(sj)
}

// deleteScaledJob deletes the ScaledJob, immediately or after its Jobs. If it is gone already, deleteScaledJob creates
// another one.
func (m *machine) deleteScaledJob(t *rapid.T) {
	switch sj := m.server.scaledJob; {
	case sj == nil:
		m.recreate()
	case sj.DeletionTimestamp != nil:
		m.server.storeScaledJob(nil)
	case rapid.Bool().Draw(t, "foreground"):
		going := sj.DeepCopy()
		going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		going.Generation++
		m.server.storeScaledJob(going)
	default:
		m.server.storeScaledJob(nil)
	}
}

// recreate creates a new ScaledJob with the name of the previous one.
func (m *machine) recreate() {
	sj := scaledJob()
	sj.UID = m.server.newUID()
	m.owners = append(m.owners, sj.UID)
	m.server.storeScaledJob(sj)
}

// collectGarbage deletes Jobs whose ScaledJob is deleted or in deletion, and terminating Jobs.
func (m *machine) collectGarbage(t *rapid.T) {
	if m.server.protected() {
		return
	}
	current := m.server.scaledJob
	for _, owner := range m.owners {
		goes := current == nil || current.UID != owner || current.DeletionTimestamp != nil
		for _, job := range m.server.owned(owner, anyJob) {
			if (goes || job.DeletionTimestamp != nil) && rapid.Bool().Draw(t, "collected") {
				m.server.remove(job.Name)
			}
		}
	}
}

func (m *machine) wait(t *rapid.T) {
	time.Sleep(rapid.SampledFrom([]time.Duration{
		time.Second, 5 * time.Second, 12 * time.Second, 30 * time.Second, 100 * time.Second, 6 * time.Minute, 20 * time.Minute,
	}).Draw(t, "time"))
}

func (m *machine) catchUp(t *rapid.T) {
	p := m.either(t)
	p.catchUp(rapid.SampledFrom([]int{0, 1, 4, 12, math.MaxInt32}).Draw(t, "changes of Jobs"), rapid.IntRange(0, 2).Draw(t, "changes of the ScaledJob"))
}

// either returns one of the running operators.
func (m *machine) either(t *rapid.T) *operatorProcess {
	if m.former != nil && rapid.Bool().Draw(t, "former") {
		return m.former
	}
	return m.leader
}

func (m *machine) breakSomething(t *rapid.T) {
	switch rapid.SampledFrom([]string{"redis", "busy", "cache", "api"}).Draw(t, "what") {
	case "redis":
		m.unreadable = errUnheard
	case "busy":
		m.unreadable = failure.ErrBusy
	case "cache":
		m.leader.listFails = true
	case "api":
		m.leader.liveFails = true
	}
}

func (m *machine) mend(*rapid.T) {
	m.unreadable = nil
	m.leader.listFails, m.leader.liveFails, m.leader.fates = false, false, nil
}

// crash ends the operator between two reconciles. A new one starts with older caches.
func (m *machine) crash(t *rapid.T) {
	m.leader.dead = true
	m.server.retire(m.leader)
	m.succeed(t)
}

// succeed makes another operator the leader. While the API server is protected, the new cache shows all deletions.
func (m *machine) succeed(t *rapid.T) {
	m.endOverlap(t)
	jobsSeen := len(m.server.jobChanges)
	jobsSeen -= rapid.IntRange(0, min(jobsSeen, 30)).Draw(t, "lag of Jobs")
	for m.server.protected() && m.server.versionAfter(jobsSeen) < m.server.deletedAt {
		jobsSeen++
	}
	sjSeen := len(m.server.sjChanges)
	sjSeen -= rapid.IntRange(0, min(sjSeen-1, 3)).Draw(t, "lag of the ScaledJob")
	m.leader = m.start(jobsSeen, sjSeen)
}

// overlap makes another operator the leader while the current one continues, because it has not noticed yet. It only
// happens if no Job was deleted that one of them may have seen and the other not: see apiServer.protected.
func (m *machine) overlap(t *rapid.T) {
	if m.former != nil || m.server.deletedAt > 0 {
		return
	}
	former := m.leader
	m.server.retire(former)
	m.server.overlap = true
	m.succeed(t)
	m.former, m.server.overlap = former, true
}

func (m *machine) endOverlap(*rapid.T) {
	if m.former != nil {
		m.former.dead = true
		m.former, m.server.overlap = nil, false
	}
}

// reconcileLeader runs a reconcile of the leader. Something may happen between the count of the Jobs and the read of
// the depth.
func (m *machine) reconcileLeader(t *rapid.T) {
	m.meanwhile = oneOf(map[string]func(*rapid.T){
		"nothing":         func(*rapid.T) { /* twice as often as anything else */ },
		"nothing at all":  func(*rapid.T) { /* as before */ },
		"Jobs finish":     m.finish,
		"messages come":   m.push,
		"messages go":     m.pop,
		"the cache moves": m.catchUp,
		"time goes by":    m.wait,
		"another passes":  func(t *rapid.T) { m.reconcile(t, m.former) },
	})
	m.reconcile(t, m.leader)
	m.meanwhile = nil
}

// reconcileRepeatedly runs consecutive reconciles while the cache advances and every Job works.
func (m *machine) reconcileRepeatedly(t *rapid.T) {
	for range rapid.IntRange(2, 6).Draw(t, "passes") {
		m.leader.catchUp(rapid.IntRange(0, 40).Draw(t, "changes"), 1)
		m.reconcile(t, m.leader)
	}
}

func (m *machine) reconcileFormer(t *rapid.T) {
	if m.former != nil {
		m.former.fates = rapid.SliceOfN(fates(), 0, 4).Draw(t, "fates")
		m.reconcile(t, m.former)
	}
}

func (m *machine) reconcileWithFaults(t *rapid.T) {
	m.leader.fates = rapid.SliceOfN(fates(), 1, 5).Draw(t, "fates")
	m.reconcile(t, m.leader)
	if m.leader.dead {
		m.succeed(t)
	}
	m.leader.fates = nil
}

// reconcile runs a reconcile of an operator.
func (m *machine) reconcile(t *rapid.T, p *operatorProcess) {
	if p == nil || p.dead {
		return
	}
	before := m.server.version
	m.t = t
	ctx := context.WithoutCancel(t.Context())
	if !p.takeOver(ctx) {
		return
	}
	result, err := p.r.Reconcile(ctx, requestOf(emails))
	t.Logf("%v reconcile: version %d -> %d, requeue after %v, error: %v",
		time.Now().Format("15:04:05"), before, m.server.version, result.RequeueAfter, err)
}

// fates generates the fates of creates: most of them are carried out.
func fates() *rapid.Generator[fate] {
	answers := []error{
		nil, nil, nil, errUnheard, errUnheard,
		apierrors.NewForbidden(batchv1.Resource("jobs"), "", errors.New("exceeded quota")),
		apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "", field.ErrorList{}),
		apierrors.NewTooManyRequests("slow down", 1),
		apierrors.NewInternalError(errors.New("etcd")),
	}
	return rapid.Custom(func(t *rapid.T) fate {
		its := fate{
			lands: rapid.SampledFrom([]time.Duration{0, 0, -1, 2 * time.Second, 20 * time.Second, time.Minute}).Draw(t, "lands"),
		}
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			its.kills = true
		case 1:
			its.hangs = true
		default:
			its.answer = rapid.SampledFrom(answers).Draw(t, "answer")
		}
		return its
	})
}

// quiet is the time until everything is settled: longer than LongestPause, and than any create stays without an answer.
const quiet = 20 * time.Minute

// settle ends all faults, lets time pass, and checks the outcome.
func (m *machine) settle(t *rapid.T) {
	m.endOverlap(t)
	m.mend(t)
	if m.server.scaledJob == nil || m.server.scaledJob.DeletionTimestamp != nil {
		m.recreate()
	}
	sj := m.server.scaledJob.DeepCopy()
	sj.Spec.Suspend = false
	sj.Generation++
	m.server.storeScaledJob(sj)
	m.check()
	before := max(m.committed[sj.UID], m.decided[sj.UID])
	for began := time.Now(); time.Since(began) < quiet && m.broken == nil; {
		m.reconcileAtRest(t)
	}
	m.judge(sj, before)
	made := m.server.version
	m.reconcileAtRest(t)
	if m.broken == nil && m.server.version != made {
		m.broken = errors.New("another reconcile has changed something")
	}
}

// reconcileAtRest runs a reconcile of an operator with current caches, and waits for the time until the next one.
func (m *machine) reconcileAtRest(t *rapid.T) {
	m.leader.catchUp(len(m.server.jobChanges), len(m.server.sjChanges))
	m.t = t
	ctx := context.WithoutCancel(t.Context())
	m.leader.takeOver(ctx)
	result, err := m.leader.r.Reconcile(ctx, requestOf(emails))
	m.check()
	if err != nil {
		time.Sleep(time.Second)
	}
	time.Sleep(result.RequeueAfter)
}

// judge checks the outcome. before is the number of Jobs that existed or were decided on before.
func (m *machine) judge(sj *scaledjobv1.ScaledJob, before int) {
	due, active := dueOf(&sj.Spec, m.depth), len(m.server.owned(sj.UID, unfinished))
	if active < due || active > max(due, before) {
		m.broken = errors.Join(m.broken, fmt.Errorf(
			"%d Jobs at the end, of which %d are due and %d existed before", active, due, before))
	}
	present := func(job *batchv1.Job) bool { return job.DeletionTimestamp == nil && jobs.Succeeded(job) }
	if kept := len(m.server.owned(sj.UID, present)); kept > int(sj.Spec.SuccessfulJobsHistoryLimitOrDefault()) {
		m.broken = errors.Join(m.broken, fmt.Errorf("%d succeeded Jobs are kept", kept))
	}
	status := &m.server.scaledJob.Status
	if int(status.ActiveJobs) != active || status.QueueDepth == nil || *status.QueueDepth != m.depth {
		m.broken = errors.Join(m.broken, fmt.Errorf(
			"with %d Jobs and %d messages, the status is %+v", active, m.depth, status))
	}
}
