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

// apiServer is an API server in memory, for many thousands of passes. It holds Jobs and one ScaledJob. All objects share a counter of
// versions, each has a UID of its own and its name for itself, and caches follow a history of changes.
type apiServer struct {
	mu         sync.Mutex
	version    int64
	uids       int
	jobs       map[string]*batchv1.Job
	jobChanges []jobChange
	scaledJob  *scaledjobv1.ScaledJob // nil while there is none
	sjChanges  []*scaledjobv1.ScaledJob
	// late are creates that have been sent and are not carried out yet.
	late []lateCreate
	// deletedAt is the version of the last deletion of a Job, and deleted says whose Jobs have been deleted.
	deletedAt int64
	deleted   map[types.UID]bool
	// overlap says that there are two operators.
	overlap bool
	// faults are requests that must never come.
	faults []error
}

// jobChange is what a watch tells of a Job. job is nil once it is gone.
type jobChange struct {
	version int64
	name    string
	job     *batchv1.Job
}

// lateCreate is a create whose sender does not wait for it any more.
type lateCreate struct {
	job    *batchv1.Job
	at     time.Time
	sender *operatorProcess
}

func newAPIServer() *apiServer {
	return &apiServer{version: 1, jobs: map[string]*batchv1.Job{}, deleted: map[types.UID]bool{}}
}

// next gives an object the next version.
func (s *apiServer) next(object metav1.Object) {
	s.version++
	object.SetResourceVersion(strconv.FormatInt(s.version, 10))
}

func (s *apiServer) newUID() types.UID {
	s.uids++
	return types.UID(fmt.Sprintf("uid-%d", s.uids))
}

// create carries out the create of a Job, and completes it as an answer does.
func (s *apiServer) create(job *batchv1.Job) error {
	if s.jobs[job.Name] != nil {
		return apierrors.NewAlreadyExists(batchv1.Resource("jobs"), job.Name)
	}
	job.UID = s.newUID()
	s.store(job)
	return nil
}

// store keeps a new or changed Job.
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

// remove removes a Job. A second create of it that is still under way is given up: whoever sent it knew that it may come to nothing, and
// whether a name is taken can't be told any more once the Job is gone. That no Job comes back like that, within the minute that the API
// server has for a request, is not promised.
func (s *apiServer) remove(name string) {
	s.deleted[jobs.ControllerUID(s.jobs[name])] = true
	delete(s.jobs, name)
	s.late = slices.DeleteFunc(s.late, func(c lateCreate) bool { return c.job.Name == name })
	s.version++
	s.deletedAt = s.version
	s.jobChanges = append(s.jobChanges, jobChange{s.version, name, nil})
}

// protected says that nothing is deleted for now. An operator does not make again what another has under way, because both claim the same
// names. A name is free again once its Job is deleted. So nothing can be promised if one of them has seen that a Job was there, and the
// other has not: for as long as two operators are at work, or a killed one has left creates that are not carried out yet.
func (s *apiServer) protected() bool {
	return s.overlap || slices.ContainsFunc(s.late, func(c lateCreate) bool { return c.sender.retired })
}

// underWay says that creates for the owner are under way, and orphaned that some are of an operator that does not lead any more.
func (s *apiServer) underWay(owner types.UID) (underWay, orphaned bool) {
	for _, c := range s.late {
		if jobs.ControllerUID(c.job) == owner {
			underWay, orphaned = true, orphaned || c.sender.retired
		}
	}
	return underWay, orphaned
}

// retire notes that an operator does not lead any more. Its creates under way are never carried out where it may remember
// what another can't know: see protected.
func (s *apiServer) retire(p *operatorProcess) {
	p.retired = true
	s.late = slices.DeleteFunc(s.late, func(c lateCreate) bool {
		return c.sender == p && s.deleted[jobs.ControllerUID(c.job)]
	})
}

// versionAfter is the version of a cache that has seen so many changes of Jobs.
func (s *apiServer) versionAfter(changes int) int64 {
	if changes == 0 {
		return 1
	}
	return s.jobChanges[changes-1].version
}

// carryOutLate carries out the creates whose time has come.
func (s *apiServer) carryOutLate() {
	slices.SortStableFunc(s.late, func(a, b lateCreate) int { return a.at.Compare(b.at) })
	for len(s.late) > 0 && !time.Now().Before(s.late[0].at) {
		job := s.late[0].job
		s.late = s.late[1:]
		_ = s.create(job) // Nobody waits for the answer.
	}
}

// storeScaledJob keeps a new or changed ScaledJob, and forgets it with nil.
func (s *apiServer) storeScaledJob(sj *scaledjobv1.ScaledJob) {
	if sj == nil {
		s.version++
	} else {
		s.next(sj)
	}
	s.scaledJob = sj
	s.sjChanges = append(s.sjChanges, sj)
}

// committed is how many Jobs of the owner have not finished, and how many more there will be even if nobody does anything.
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

// owned are the Jobs that the owner controls and that are as asked for, in the order of their names.
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

// finish ends a Job as the Job controller does.
func (s *apiServer) finish(name string, kind batchv1.JobConditionType) {
	s.update(name, func(job *batchv1.Job) {
		job.Status.Conditions = []batchv1.JobCondition{{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
		}}
	})
}

// history tells what has happened to the Jobs.
func (s *apiServer) history() string {
	var told strings.Builder
	for _, c := range s.jobChanges {
		if c.job == nil {
			fmt.Fprintf(&told, "%d: %s is gone\n", c.version, c.name)
			continue
		}
		ordinal, _ := jobs.Ordinal(&c.job.ObjectMeta)
		fmt.Fprintf(&told, "%d: %s is %s of %q, ordinal %d, finished: %t, terminating: %t\n", c.version, c.name, c.job.UID,
			jobs.ControllerUID(c.job), ordinal, jobs.Finished(c.job), c.job.DeletionTimestamp != nil)
	}
	for _, c := range s.late {
		fmt.Fprintf(&told, "under way until %v: %s\n", c.at, c.job.Name)
	}
	return told.String()
}

// scaledJobAt is the ScaledJob as it was at this version, and nil where there was none.
func (s *apiServer) scaledJobAt(version string) *scaledjobv1.ScaledJob {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at *scaledjobv1.ScaledJob
	for _, change := range s.sjChanges {
		if change != nil && number(change.ResourceVersion) > number(version) {
			break
		}
		at = change
	}
	return at
}

// number is that of a version.
func number(version string) int64 {
	n, _ := strconv.ParseInt(version, 10, 64)
	return n
}
