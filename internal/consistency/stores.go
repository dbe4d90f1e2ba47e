// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package consistency

import (
	"errors"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
)

// Stores are the stores of the Job informers behind a cache. Their NewInformer goes into the options of that cache.
type Stores struct {
	mu   sync.RWMutex
	jobs []toolscache.Store
}

// NewInformer makes an informer as a cache does by default, and remembers the store of one for Jobs.
func (s *Stores) NewInformer(
	source toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	informer := toolscache.NewSharedIndexInformer(source, object, resync, indexers)
	if _, isJob := object.(*batchv1.Job); isJob {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.jobs = append(s.jobs, informer.GetStore())
	}
	return informer
}

// Check returns an error if a synced store does not tell its resource version. Then no write of ours would ever be seen.
func (s *Stores) Check() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.jobs) == 0 {
		return errors.New("the cache has no informer for Jobs")
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
