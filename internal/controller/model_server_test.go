// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
)

// apiServer is an API server in memory, fast enough for many thousands of reconciles. It has Jobs and one ScaledJob.
// All objects share one counter of resource versions, have unique UIDs and names, and caches follow a history of
// changes.
type apiServer struct {
	mu         sync.Mutex
	version    int64
	uids       int
	jobs       map[string]*batchv1.Job
	jobChanges []jobChange
	scaledJob  *scaledjobv1.ScaledJob // nil while there is none
	sjChanges  []*scaledjobv1.ScaledJob
	// late are creates that were sent and are not carried out yet.
	late []lateCreate
	// deletedAt is the version of the last deletion of a Job, and deleted the owners whose Jobs were deleted.
	deletedAt int64
	deleted   map[types.UID]bool
	// inherited is how many changes of Jobs a cache must show so that it shows every Job that an operator created late
	// which is not running any more.
	inherited int
	// overlap is true while two operators are running.
	overlap bool
	// faults are requests that violate an invariant.
	faults []error
}

// jobChange is a watch event of a Job. job is nil after its deletion.
type jobChange struct {
	version int64
	name    string
	job     *batchv1.Job
}

// lateCreate is a create whose sender no longer waits for the answer.
type lateCreate struct {
	job    *batchv1.Job
	at     time.Time
	sender *operatorProcess
}

func newAPIServer() *apiServer {
	return &apiServer{version: 1, jobs: map[string]*batchv1.Job{}, deleted: map[types.UID]bool{}}
}

// next sets the next resource version of an object.
func (s *apiServer) next(object metav1.Object) {
	s.version++
	object.SetResourceVersion(strconv.FormatInt(s.version, 10))
}

func (s *apiServer) newUID() types.UID {
	s.uids++
	return types.UID(fmt.Sprintf("uid-%d", s.uids))
}

// create carries out the create of a Job, and completes the Job as the answer does.
func (s *apiServer) create(job *batchv1.Job) error {
	if s.jobs[job.Name] != nil {
		return apierrors.NewAlreadyExists(batchv1.Resource("jobs"), job.Name)
	}
	job.UID = s.newUID()
	s.store(job)
	return nil
}

// store stores a new or changed Job.
func (s *apiServer) store(job *batchv1.Job) {
	s.next(job)
	s.jobs[job.Name] = job.DeepCopy()
	s.jobChanges = append(s.jobChanges, jobChange{s.version, job.Name, s.jobs[job.Name]})
}

// update changes a Job.
func (s *apiServer) update(name string, change func(*batchv1.Job)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.jobs[name].DeepCopy()
	change(job)
	s.store(job)
}

// remove removes a Job for somebody else than an operator, and drops a second create of it that is still in flight.
// After the deletion the name is free, so that the create could be carried out. That no Job comes back in this way,
// within the minute for which the API server works on a request, is not guaranteed.
func (s *apiServer) remove(name string) {
	s.late = slices.DeleteFunc(s.late, func(c lateCreate) bool { return c.job.Name == name })
	s.prune(name)
}

// prune removes a Job for an operator, which must know of its own creates in flight. It drops those of operators that
// no longer lead, or while two are running: nobody knows of them.
func (s *apiServer) prune(name string) {
	s.late = slices.DeleteFunc(s.late, func(c lateCreate) bool {
		return c.job.Name == name && (c.sender.retired || s.overlap)
	})
	s.deleted[jobs.ControllerUID(s.jobs[name])] = true
	delete(s.jobs, name)
	s.version++
	s.deletedAt = s.version
	s.jobChanges = append(s.jobChanges, jobChange{s.version, name, nil})
}

// protected reports whether no Job may be deleted now. Two operators do not create the same Job twice, because both use
// the same names. But a name is free again after its Job is deleted. So nothing is guaranteed if one operator has seen
// a Job and the other has not: while two operators are running, or while creates of a killed operator are in flight.
func (s *apiServer) protected() bool {
	return s.overlap || slices.ContainsFunc(s.late, func(c lateCreate) bool { return c.sender.retired })
}

// underWay reports whether creates for the owner are in flight, and whether some of them are from an operator that no
// longer leads.
func (s *apiServer) underWay(owner types.UID) (underWay, orphaned bool) {
	for _, c := range s.late {
		if jobs.ControllerUID(c.job) == owner {
			underWay, orphaned = true, orphaned || c.sender.retired
		}
	}
	return underWay, orphaned
}

// retire records that an operator no longer leads. Its creates in flight are not carried out if it may have seen Jobs
// that the other has not: see protected.
func (s *apiServer) retire(p *operatorProcess) {
	p.retired = true
	s.late = slices.DeleteFunc(s.late, func(c lateCreate) bool {
		return c.sender == p && s.deleted[jobs.ControllerUID(c.job)]
	})
}

// versionAfter returns the resource version of a cache that has seen this number of changes of Jobs.
func (s *apiServer) versionAfter(changes int) int64 {
	if changes == 0 {
		return 1
	}
	return s.jobChanges[changes-1].version
}

// carryOutLate carries out the creates that are due.
func (s *apiServer) carryOutLate() {
	slices.SortStableFunc(s.late, func(a, b lateCreate) int { return a.at.Compare(b.at) })
	for len(s.late) > 0 && !time.Now().Before(s.late[0].at) {
		late := s.late[0]
		s.late = s.late[1:]
		if err := s.create(late.job); err == nil && late.sender.retired { // The sender no longer waits for the answer.
			s.inherited = len(s.jobChanges)
		}
	}
}

// storeScaledJob stores a new or changed ScaledJob, or removes it if sj is nil.
func (s *apiServer) storeScaledJob(sj *scaledjobv1.ScaledJob) {
	if sj == nil {
		s.version++
	} else {
		s.next(sj)
	}
	s.scaledJob = sj
	s.sjChanges = append(s.sjChanges, sj)
}

// committed returns the number of unfinished Jobs of the owner, plus the number of Jobs that creates in flight will
// create.
func (s *apiServer) committed(owner types.UID) int {
	count := 0
	for _, job := range s.jobs {
		if jobs.ControllerUID(job) == owner && !jobs.Finished(job) {
			count++
		}
	}
	coming := map[string]struct{}{}
	for _, c := range s.late {
		if jobs.ControllerUID(c.job) == owner && s.jobs[c.job.Name] == nil {
			coming[c.job.Name] = struct{}{}
		}
	}
	return count + len(coming)
}

// owned returns the Jobs that the owner controls and that match, sorted by name.
func (s *apiServer) owned(owner types.UID, asked func(*batchv1.Job) bool) []*batchv1.Job {
	var found []*batchv1.Job
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		if job := s.jobs[name]; jobs.ControllerUID(job) == owner && asked(job) {
			found = append(found, job)
		}
	}
	return found
}

func unfinished(job *batchv1.Job) bool { return !jobs.Finished(job) }

func anyJob(*batchv1.Job) bool { return true }

// finish makes a Job finish, like the Job controller.
func (s *apiServer) finish(name string, kind batchv1.JobConditionType) {
	s.update(name, func(job *batchv1.Job) {
		job.Status.Conditions = []batchv1.JobCondition{{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
		}}
	})
}

// history describes what has happened to the Jobs.
func (s *apiServer) history() string {
	var text strings.Builder
	for _, c := range s.jobChanges {
		if c.job == nil {
			fmt.Fprintf(&text, "%d: %s is deleted\n", c.version, c.name)
			continue
		}
		ordinal, _ := jobs.Ordinal(&c.job.ObjectMeta)
		fmt.Fprintf(&text, "%d: %s is %s of %q, ordinal %d, finished: %t, terminating: %t\n", c.version, c.name, c.job.UID,
			jobs.ControllerUID(c.job), ordinal, jobs.Finished(c.job), c.job.DeletionTimestamp != nil)
	}
	for _, c := range s.late {
		fmt.Fprintf(&text, "in flight until %v: %s\n", c.at, c.job.Name)
	}
	return text.String()
}
