// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package race

import (
	"context"
	"errors"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// tally counts the Jobs that were ever made, by the UID of their controller. Its
// watch is its own.
type tally struct {
	mu     sync.Mutex
	counts map[types.UID]int
}

// tallyJobs counts the Jobs of a namespace until ctx ends.
func tallyJobs(ctx context.Context, config *rest.Config, namespace string) (*tally, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace))
	informer := factory.Batch().V1().Jobs().Informer()
	t := &tally{counts: map[types.UID]int{}}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: t.count})
	if err != nil {
		return nil, err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil, errors.New("the watch of Jobs did not start")
	}
	return t, nil
}

func (t *tally) count(object any) {
	job, ok := object.(metav1.Object)
	if !ok {
		return
	}
	owner := metav1.GetControllerOf(job)
	if owner == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[owner.UID]++
}

// of is how many Jobs the owner has had.
func (t *tally) of(owner types.UID) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[owner]
}
