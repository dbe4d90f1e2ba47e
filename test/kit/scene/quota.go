// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// JobCount and PodCount are what quotas call the numbers of Jobs and of Pods.
const (
	JobCount = corev1.ResourceName("count/jobs.batch")
	PodCount = corev1.ResourceName("count/pods")
)

// Limit creates a quota in the namespace, and returns it when it is in force. That is told by a resource of which it
// allows none: the API server learns of quotas a moment after they exist.
func (s *ScaledJob) Limit(ctx context.Context, name string, hard map[corev1.ResourceName]int64) (*corev1.ResourceQuota, error) {
	hard = maps.Clone(hard)
	hard["count/configmaps"] = 0
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}},
	}
	for of, count := range hard {
		quota.Spec.Hard[of] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	if err := s.API.Create(ctx, quota); err != nil {
		return nil, fmt.Errorf("creating quota %s: %w", name, err)
	}
	err := Await(ctx, func(ctx context.Context) error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "probe"}}
		if err := s.API.Create(ctx, probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("a ConfigMap is allowed"), err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting until quota %s is in force: %w", name, err)
	}
	return quota, s.API.Get(ctx, client.ObjectKeyFromObject(quota), quota)
}
