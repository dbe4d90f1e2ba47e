// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"miracle.dev/scaledjob-operator/internal/jobcontrol"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/pages"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// errNoInformer means that the cache has no informer for ScaledJobs. Without this error there would seem to be none.
var errNoInformer = errors.New("the cache has no informer for ScaledJobs")

// Cache reads ScaledJobs and Jobs straight from the stores of the manager's cache. The objects belong to the cache and
// must not be changed. The client of the manager would look up the kind for each read.
type Cache struct {
	jobcontrol.Stores

	mu         sync.RWMutex
	scaledJobs []toolscache.Store
}

// Options returns the options of the manager's cache: objects are stored without unused fields, also while the cache is
// filled, and the client of the manager does not copy them. Jobs are not selected by label, because a running Job would
// disappear from the cache if a user removed the label. No namespaces means all namespaces.
func (c *Cache) Options(namespaces []string, log logr.Logger) cache.Options {
	options := cache.Options{
		ReaderFailOnMissingInformer:  true,
		DefaultTransform:             slim,
		DefaultUnsafeDisableDeepCopy: new(true),
		NewInformer: func(
			source toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*")
			informer := c.NewInformer(pages.Source(source, slim, log.WithValues("type", kind)), object, resync, indexers)
			if _, isScaledJob := object.(*scaledjob.ScaledJob); isScaledJob {
				c.add(informer.GetStore())
			}
			return informer
		},
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options
}

func (c *Cache) add(scaledJobs toolscache.Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scaledJobs = append(c.scaledJobs, scaledJobs)
}

// ScaledJob returns a ScaledJob; nil if the cache shows none.
func (c *Cache) ScaledJob(key types.NamespacedName) (*scaledjob.ScaledJob, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.scaledJobs) == 0 {
		return nil, errNoInformer
	}
	name := key.String()
	for _, store := range c.scaledJobs {
		found, exists, err := store.GetByKey(name)
		if err != nil {
			return nil, fmt.Errorf("reading a ScaledJob: %w", err)
		}
		if exists {
			return found.(*scaledjob.ScaledJob), nil
		}
	}
	return nil, nil
}

// slim strips an object for the cache.
func slim(object any) (any, error) {
	slimmed, err := jobs.Slim(object)
	if err != nil {
		return nil, err
	}
	return scaledjob.Slim(slimmed)
}
