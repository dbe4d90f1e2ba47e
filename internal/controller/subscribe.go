// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/keyspace"
)

// subscribe claims the Redis server and the queues of the spec, and watches the keys as spec.notifications says. A
// value that this version does not know is treated like Disabled. An error, always an [*failure.Error], means that no
// Redis server can be used.
func (r *Reconciler) subscribe(t *target) error {
	id, source := keyspace.ID(t.key()), &t.spec.Source
	t.note(r.memories.share(t)...)
	if t.spec.Err != nil {
		r.unsubscribe(t.key())
		return t.spec.Err
	}
	if err := r.Servers.Claim(t.sj.Namespace, t.sj.Name, source.Endpoint, source.Database, names(t.spec.Keys)...); err != nil {
		r.Watcher.Forget(id)
		return err
	}
	switch t.sj.Spec.Notifications {
	case scaledjobv1.NotificationsEnabled, "":
		r.Watcher.Ensure(id, source.Endpoint, keyspace.AnySource, t.spec.Keys...)
	case scaledjobv1.NotificationsTracking:
		r.Watcher.Ensure(id, source.Endpoint, keyspace.OnlyTracking, t.spec.Keys...)
	default:
		r.Watcher.Forget(id)
	}
	return nil
}

func names(keys []keyspace.Key) []string {
	found := make([]string, len(keys))
	for i, key := range keys {
		found[i] = key.Name
	}
	return found
}

// unsubscribe ends the subscriptions of the ScaledJob and releases its claim on the Redis server.
func (r *Reconciler) unsubscribe(key types.NamespacedName) {
	r.Watcher.Forget(keyspace.ID(key))
	r.Servers.Release(key.Namespace, key.Name)
}
