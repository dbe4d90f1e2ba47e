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

// errNoInformer means that the cache has no informer for Jobs. Without this error the list of Jobs would seem to be
// empty.
var errNoInformer = errors.New("the cache has no informer for Jobs")

// ownerIndex is the name of the index of Jobs by namespace and controller UID.
const ownerIndex = "jobs of an owner"

// Stores holds the stores of the Job informers behind a cache. Set its NewInformer in the options of that cache.
type Stores struct {
	mu   sync.RWMutex
	jobs []toolscache.Indexer
}

// NewInformer creates an informer as the cache does by default. If the informer is for Jobs, NewInformer keeps its
// store and adds an index by owner.
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

// Owned returns the cached Jobs in the namespace that the owner controls, in no particular order. The Jobs belong to
// the cache and must not be changed. The client of the manager would copy the struct of every Job on every list.
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

// Check returns an error if a synced store does not report its resource version. The gate would then never see that the
// cache shows a write.
func (s *Stores) Check() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.jobs) == 0 {
		return errNoInformer
	}
	for _, store := range s.jobs {
		if store.LastStoreSyncResourceVersion() == "" {
			return errors.New("the Job cache does not report its resource version: " +
				"the client-go feature gate AtomicFIFO must be on (environment variable KUBE_FEATURE_AtomicFIFO)")
		}
	}
	return nil
}

// reached reports whether the cache is at this resource version or a later one, so that it shows every Job written up
// to then. It returns false if there are several stores, because then it is unknown which store holds the Job.
func (s *Stores) reached(version string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.jobs) != 1 {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(s.jobs[0].LastStoreSyncResourceVersion(), version)
	return err == nil && order >= 0
}
