// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// The spec names another mode than the servers have. The status has the line to write.
func TestWrongModeIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	s := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	otherName := func(spec *scaledjobv1.ScaledJobSpec) {
		at(scaledjobv1.RedisSentinel, r.Addresses()...)(spec)
		spec.Redis.Sentinel.MasterName = "other"
	}
	for name, c := range map[string]struct {
		change         scene.Change
		reason, advice string
		stalled        bool
	}{
		"a node of a cluster": {
			scene.At(s.Nodes[0].Addr()), scaledjobv1.ReasonWrongMode, "mode: Cluster", true,
		},
		"a sentinel": {scene.At(r.Sentinels[0].Addr()), scaledjobv1.ReasonWrongMode, "mode: Sentinel", true},
		"a server that is no sentinel": {
			at(scaledjobv1.RedisSentinel, server.Addr()), scaledjobv1.ReasonWrongMode, "mode: Standalone", true,
		},
		"a server that is no cluster": {
			at(scaledjobv1.RedisCluster, server.Addr()), scaledjobv1.ReasonWrongMode, "mode: Standalone", true,
		},
		"a sentinel that is no cluster": {
			at(scaledjobv1.RedisCluster, r.Sentinels[0].Addr()), scaledjobv1.ReasonWrongMode, "mode: Sentinel", true,
		},
		"another master": {otherName, scaledjobv1.ReasonMasterNotFound, "masterName", true},
		"nobody":         {at(scaledjobv1.RedisSentinel, "127.0.0.1:1"), scaledjobv1.ReasonUnreachable, "No sentinel answers", false},
		"no node":        {at(scaledjobv1.RedisCluster, "127.0.0.1:1"), scaledjobv1.ReasonUnreachable, "refused", false},
		"a replica":      {scene.At(r.Servers[1].Addr()), scaledjobv1.ReasonConnected, "is a replica", false},
		"the master":     {at(scaledjobv1.RedisSentinel, r.Addresses()...), scaledjobv1.ReasonConnected, "was read.", false},
		"the cluster":    {at(scaledjobv1.RedisCluster, s.Nodes[0].Addr()), scaledjobv1.ReasonConnected, "was read.", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			namespace, err := shared.Control.CreateNamespace(t.Context(), "modes")
			g.Expect(err).NotTo(HaveOccurred())
			sj := &scene.ScaledJob{API: shared.API, Operator: shared.Operator, Namespace: namespace, Name: "emails", Queue: unowned(t, s)}
			g.Expect(sj.Create(t.Context(), c.change)).To(Succeed())
			g.Eventually(func() (string, error) {
				is, err := sj.Get(t.Context())
				if err != nil {
					return "", err
				}
				connected := apimeta.FindStatusCondition(is.Status.Conditions, scaledjobv1.ConditionQueueConnected)
				if connected == nil {
					return "", nil
				}
				stalled := apimeta.IsStatusConditionPresentAndEqual(is.Status.Conditions, scaledjobv1.ConditionStalled, metav1.ConditionTrue)
				if stalled != c.stalled || !strings.Contains(connected.Message, c.advice) {
					return connected.Message, nil
				}
				return connected.Reason, nil
			}).WithTimeout(stopTimeout).Should(Equal(c.reason))
			g.Expect(sj.Delete(t.Context())).To(Succeed())
		})
	}
}

// unowned returns a key that the first node of a cluster does not have.
func unowned(t *testing.T, s *redistest.Sharded) string {
	t.Helper()
	for _, key := range []string{"a", "b", "c"} { // On three masters.
		owner, err := s.Owner(t.Context(), s.Nodes[0], key)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		if owner != s.Nodes[0] {
			return key
		}
	}
	t.Fatal("one node has all keys")
	return ""
}
