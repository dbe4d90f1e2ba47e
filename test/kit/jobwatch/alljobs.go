// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobwatch

import (
	"errors"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// AllJobs sees all Jobs of a control plane. Unlike a [Watch], it checks no limit. It is safe for concurrent use.
type AllJobs struct {
	store cache.Indexer

	mu sync.Mutex
	// ever counts Jobs by what controls them. The name is empty for those that nothing does.
	ever map[types.NamespacedName]int
}

// WatchAll watches all Jobs of a control plane until the process ends.
func WatchAll(clients kubernetes.Interface) (*AllJobs, error) {
	informer := informers.NewSharedInformerFactory(clients, 0).Batch().V1().Jobs().Informer()
	a := &AllJobs{store: informer.GetIndexer(), ever: map[types.NamespacedName]int{}}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: a.count})
	if err != nil {
		return nil, err
	}
	go informer.Run(nil)
	if !cache.WaitForCacheSync(nil, registration.HasSynced) {
		return nil, errors.New("the watch of Jobs did not start")
	}
	return a, nil
}

func (a *AllJobs) count(object any) {
	job, isJob := object.(*batchv1.Job)
	if !isJob {
		return
	}
	by := types.NamespacedName{Namespace: job.Namespace}
	if owner := metav1.GetControllerOf(job); owner != nil {
		by.Name = owner.Name
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ever[by]++
}

// EverOf is how many Jobs of this ScaledJob there have been, those that are gone included.
func (a *AllJobs) EverOf(scaledJob types.NamespacedName) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ever[scaledJob]
}

// EverIn is how many Jobs there have been in a namespace, whoever made them.
func (a *AllJobs) EverIn(namespace string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	count := 0
	for by, many := range a.ever {
		if by.Namespace == namespace {
			count += many
		}
	}
	return count
}

// In are the Jobs that are in a namespace. They must not be changed.
func (a *AllJobs) In(namespace string) ([]*batchv1.Job, error) {
	objects, err := a.store.ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil, err
	}
	jobs := make([]*batchv1.Job, 0, len(objects))
	for _, object := range objects {
		job, isJob := object.(*batchv1.Job)
		if !isJob {
			return nil, errors.New("the watch of Jobs holds something else")
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}
