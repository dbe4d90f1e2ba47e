// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/redisconn"
	"miracle.dev/scaledjob-operator/internal/translate"
)

// subscribe has the watcher listen to the keys that the spec names now, or to none if notifications are disabled.
func (r *Reconciler) subscribe(sj *scaledjobv1.ScaledJob) {
	key := client.ObjectKeyFromObject(sj)
	endpoint, err := redisconn.ParseEndpoint(sj.Spec.RedisAddress)
	if err != nil || sj.Spec.Notifications == scaledjobv1.NotificationsDisabled {
		r.Watcher.Forget(key)
		return
	}
	r.Watcher.Ensure(key, endpoint, translate.Keys(sj.Spec.AllQueues())...)
}
