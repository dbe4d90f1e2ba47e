// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// ledger sees every Job of a namespace, from the moment in which it is created.
type ledger struct {
	mu      sync.Mutex
	seen    []time.Time // when each Job was first seen
	running map[string]bool
	deleted []string // unfinished Jobs that were deleted
}

// watchJobs starts a ledger, which ends with the test.
func watchJobs(t *testing.T, namespace string) *ledger {
	t.Helper()
	g := NewWithT(t)
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace))
	informer := factory.Batch().V1().Jobs().Informer()
	l := &ledger{running: map[string]bool{}}
	registration := must.Get(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(job any) { l.add(job.(*batchv1.Job)) },
		UpdateFunc: func(_, job any) { l.update(job.(*batchv1.Job)) },
		DeleteFunc: l.remove,
	}))(g)
	go informer.Run(t.Context().Done())
	g.Expect(cache.WaitForCacheSync(t.Context().Done(), registration.HasSynced)).To(BeTrue())
	return l
}

func (l *ledger) add(job *batchv1.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, time.Now())
	l.running[job.Name] = true
}

func (l *ledger) update(job *batchv1.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if job.Status.CompletionTime != nil {
		delete(l.running, job.Name)
	}
}

func (l *ledger) remove(object any) {
	if last, isTombstone := object.(cache.DeletedFinalStateUnknown); isTombstone {
		object = last.Obj
	}
	name := object.(*batchv1.Job).Name
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[name] {
		l.deleted = append(l.deleted, name)
		delete(l.running, name)
	}
}

func (l *ledger) created() int { return len(l.times()) }

// times returns when each Job was first seen.
func (l *ledger) times() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

func (l *ledger) unfinished() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name := range l.running {
		names = append(names, name)
	}
	return names
}

func (l *ledger) deletedUnfinished() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.deleted)
}
