// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/runtime"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/examples"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// The samples for both modes, but for the addresses and the name of the master.
func TestSamplesGetTheirJobs(t *testing.T) {
	t.Parallel()
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	s := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	behind := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: r.Addresses()})
	inside := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addresses()})
	t.Cleanup(func() { NewWithT(t).Expect([]error{behind.Close(), inside.Close()}).To(HaveEach(BeNil())) })
	for name, c := range map[string]struct {
		client redis.UniversalClient
		change func(*scaledjobv1.Redis)
		queue  string
	}{
		"invoices": {behind, func(to *scaledjobv1.Redis) {
			to.Addresses, to.Sentinel.MasterName = r.Addresses(), redistest.MasterName
		}, "invoices"},
		"thumbnails": {inside, func(to *scaledjobv1.Redis) { to.Addresses = s.Addresses()[:1] }, "{thumbnails}:waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			namespace, err := shared.Control.CreateNamespace(t.Context(), "samples")
			g.Expect(err).NotTo(HaveOccurred())
			sample := sampleNamed(t, name)
			sj := &scene.ScaledJob{
				API: shared.API, Operator: shared.Operator, Redis: c.client, Namespace: namespace, Name: name, Queue: c.queue,
			}
			g.Expect(sj.Create(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) {
				*spec = sample.Spec
				c.change(spec.Redis)
			})).To(Succeed())
			sj.Queue = c.queue
			g.Expect(sj.Observe(t.Context(), shared.Control.Config(), sj.Pushed)).To(Succeed())
			g.Expect(sj.Push(t.Context(), 3)).To(Succeed())
			g.Eventually(sj.Witness.Created).WithTimeout(stopTimeout).Should(Equal(3))
			g.Expect(sj.Witness.Verdict()).To(BeEmpty())
			g.Expect(sj.Delete(t.Context())).To(Succeed())
		})
	}
}

func sampleNamed(t *testing.T, name string) *scaledjobv1.ScaledJob {
	t.Helper()
	g := NewWithT(t)
	all, err := examples.Samples("../../..")
	g.Expect(err).NotTo(HaveOccurred())
	for _, each := range all {
		if each.GetName() == name {
			var sj scaledjobv1.ScaledJob
			g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(each.Object, &sj)).To(Succeed())
			return &sj
		}
	}
	t.Fatalf("there is no sample %s", name)
	return nil
}
