// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"

	"miracle.dev/scaledjob-operator/internal/jobs"
)

// errNoInformer is that of a cache that nobody asked for Jobs. Without it, it would look as if there were none.
var errNoInformer = errors.New("the cache has no informer for Jobs")

// ownerIndex finds the Jobs of a namespace by the object that controls them.
const ownerIndex = "jobs of an owner"

// Stores are the stores of the Job informers behind a cache. Their NewInformer goes into the options of that cache.
type Stores struct {
	mu   sync.RWMutex
	jobs []toolscache.Indexer
}

// NewInformer makes an informer as a cache does by default, and remembers the store of one for Jobs.
func (s *Stores) NewInformer(
	source toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	if _, isJob := object.(*batchv1.Job); !isJob {
		return toolscache.NewSharedIndexInformer(source, object, resync, indexers)
	}
	indexed := toolscache.Indexers{ownerIndex: indexOwner}
	maps.Copy(indexed, indexers)
	informer := toolscache.NewSharedIndexInformer(source, object, resync, indexed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, informer.GetIndexer())
	return informer
}

// Owned are the Jobs in the namespace that the owner controls, as the cache shows them, in no order. They are the cache's own and must
// not be changed: a reader of the cache would copy each of them at each count.
func (s *Stores) Owned(namespace string, owner types.UID) ([]*batchv1.Job, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.jobs) == 0 {
		return nil, errNoInformer
	}
	var owned []*batchv1.Job
	for _, store := range s.jobs {
		found, err := store.ByIndex(ownerIndex, ownerKey(namespace, owner))
		if err != nil {
			return nil, fmt.Errorf("listing Jobs: %w", err)
		}
		for _, object := range found {
			owned = append(owned, object.(*batchv1.Job))
		}
	}
	return owned, nil
}

func indexOwner(object any) ([]string, error) {
	job, isJob := object.(*batchv1.Job)
	if !isJob || jobs.ControllerUID(job) == "" {
		return nil, nil
	}
	return []string{ownerKey(job.Namespace, jobs.ControllerUID(job))}, nil
}

func ownerKey(namespace string, owner types.UID) string { return namespace + "/" + string(owner) }

// Check returns an error if a synced store does not tell its resource version. Then no write of ours would ever be seen.
func (s *Stores) Check() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.jobs) == 0 {
		return errNoInformer
	}
	for _, store := range s.jobs {
		if store.LastStoreSyncResourceVersion() == "" {
			return errors.New("the Job cache does not tell its resource version: " +
				"the client-go feature gate AtomicFIFO must be on (environment variable KUBE_FEATURE_AtomicFIFO)")
		}
	}
	return nil
}

// reached says whether the cache is at this resource version or later, so that it shows every Job written up to it. With several stores
// it can't be told which of them would hold the Job, so the answer is no.
func (s *Stores) reached(version string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.jobs) != 1 {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(s.jobs[0].LastStoreSyncResourceVersion(), version)
	return err == nil && order >= 0
}
