// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// expectNamed creates a ScaledJob whose servers announce an address that is out of reach, and expects that the conditions
// name it. After the cure, they are True again.
func expectNamed(t *testing.T, change scene.Change, address, check string, cure func() error) {
	t.Helper()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(stopTimeout)
	namespace, err := shared.Control.CreateNamespace(t.Context(), "announced")
	g.Expect(err).NotTo(HaveOccurred())
	sj := &scene.ScaledJob{API: shared.API, Operator: shared.Operator, Namespace: namespace, Name: "emails", Queue: queueKey}
	g.Expect(sj.Create(t.Context(), change)).To(Succeed())
	condition := func(kind string) func() (metav1.Condition, error) {
		return func() (metav1.Condition, error) {
			is, err := sj.Get(t.Context())
			if err != nil {
				return metav1.Condition{}, err
			}
			if found := apimeta.FindStatusCondition(is.Status.Conditions, kind); found != nil {
				return *found, nil
			}
			return metav1.Condition{}, nil
		}
	}
	g.Eventually(condition(scaledjobv1.ConditionQueueConnected)).Should(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", scaledjobv1.ReasonUnreachable),
		HaveField("Message", And(ContainSubstring(fmt.Sprintf("%q", address)), ContainSubstring(check))),
	))
	g.Expect(cure()).To(Succeed())
	g.Eventually(condition(scaledjobv1.ConditionReady)).Should(HaveField("Status", metav1.ConditionTrue))
	g.Expect(sj.Delete(t.Context())).To(Succeed())
}

func TestANodeOutOfReachIsNamed(t *testing.T) {
	t.Parallel()
	for setting, value := range map[string]string{"cluster-announce-ip": "192.0.2.1", "cluster-announce-port": "1"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := redistest.NewSharded(t, redistest.ShardedOptions{Masters: 1, Replicas: -1})
			node := s.Nodes[0]
			host, port, _ := strings.Cut(node.Addr(), ":")
			announced, right := value+":"+port, host
			if setting == "cluster-announce-port" {
				announced, right = host+":"+value, "0"
			}
			set := func(to string) error { return node.Client().ConfigSet(t.Context(), setting, to).Err() }
			g.Expect(set(value)).To(Succeed())
			expectNamed(t, at(scaledjobv1.RedisCluster, node.Addr()), announced, "cluster-announce-ip", func() error { return set(right) })
		})
	}
}

func TestAMasterOutOfReachIsNamed(t *testing.T) {
	t.Parallel()
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	sentinel := r.Sentinels[0].Client()
	do := func(args ...any) error { return sentinel.Do(t.Context(), append([]any{"sentinel"}, args...)...).Err() }
	// One sentinel alone does not take this master for down.
	NewWithT(t).Expect(do("monitor", "other", "127.0.0.1", "1", "2")).To(Succeed())
	change := func(spec *scaledjobv1.ScaledJobSpec) {
		at(scaledjobv1.RedisSentinel, r.Addresses()...)(spec)
		spec.Redis.Sentinel.MasterName = "other"
	}
	expectNamed(t, change, "127.0.0.1:1", "replica-announce-ip", func() error {
		if err := do("remove", "other"); err != nil {
			return err
		}
		host, port, _ := strings.Cut(r.Servers[0].Addr(), ":")
		return do("monitor", "other", host, port, "2")
	})
}
