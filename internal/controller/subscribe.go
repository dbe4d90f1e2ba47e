// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// subscribe claims the Redis server that the spec names now, and has the watcher listen to the keys there, or to none if notifications are
// disabled. The error is an [*rediserror.Error]: then there is no server to read from.
func (r *Reconciler) subscribe(sj *scaledjobv1.ScaledJob) error {
	key := client.ObjectKeyFromObject(sj)
	endpoint, database, err := scaledjob.Endpoint(sj.Namespace, &sj.Spec)
	if err != nil {
		r.unsubscribe(key)
		return err
	}
	if err := r.Servers.Claim(sj.Namespace, sj.Name, endpoint, database); err != nil {
		r.Watcher.Forget(key)
		return err
	}
	if sj.Spec.Notifications == scaledjobv1.NotificationsDisabled {
		r.Watcher.Forget(key)
		return nil
	}
	r.Watcher.Ensure(key, endpoint, scaledjob.Keys(database, sj.Spec.AllQueues())...)
	return nil
}

// unsubscribe has nothing listened to, and gives the Redis server up.
func (r *Reconciler) unsubscribe(key types.NamespacedName) {
	r.Watcher.Forget(key)
	r.Servers.Release(key.Namespace, key.Name)
}
