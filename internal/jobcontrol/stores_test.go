// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)

	stores, _ := storesAt(g, "7", "8")
	g.Expect(stores.Check()).To(Succeed())

	stores, _ = storesAt(g)
	g.Expect(stores.Check()).To(MatchError(ContainSubstring("no informer for Jobs")))
	stores.NewInformer(nil, &corev1.Pod{}, 0, toolscache.Indexers{})
	g.Expect(stores.Check()).To(MatchError(ContainSubstring("no informer for Jobs")),
		"an informer for Pods does not count")

	stores, _ = storesAt(g, "7", "")
	g.Expect(stores.Check()).NotTo(Succeed(), "each store must report its version")
}

// Without this feature gate of client-go no store reports its version, and the gate would never see that the cache
// shows a write. This test does not run in parallel, because it changes a setting of the whole process.
func TestCheckWithoutAtomicFIFO(t *testing.T) {
	g := NewWithT(t)
	stores, _ := storesAt(g, "7")
	featurestesting.SetFeatureDuringTest(t, features.AtomicFIFO, false)

	g.Expect(stores.Check()).To(MatchError(ContainSubstring("KUBE_FEATURE_AtomicFIFO")))
}

func TestNewInformerKeepsIndexers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	stores := &Stores{}
	byOwner := toolscache.Indexers{"owner": func(any) ([]string, error) { return []string{"all"}, nil }}

	informer := stores.NewInformer(nil, &batchv1.Job{}, 0, byOwner)

	g.Expect(informer.GetIndexer().GetIndexers()).To(HaveKey("owner"))
	g.Expect(informer.GetStore().Add(jobOf(owner1, "a", "8"))).To(Succeed())
	g.Expect(informer.GetIndexer().ByIndex("owner", "all")).To(HaveLen(1))
	g.Expect(stores.reached("8")).To(BeTrue(), "the store of the informer is used")
	g.Expect(stores.reached("9")).To(BeFalse())
}

func TestOwned(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, err := (&Stores{}).Owned("mail", owner1)
	g.Expect(err).To(HaveOccurred(), "a cache without a Job informer can't list Jobs")

	stores, behind := storesAt(g, "7", "8")
	own, elsewhere, released := jobOf(owner1, "own", "3"), jobOf(owner1, "elsewhere", "3"), jobOf(owner1, "released", "3")
	elsewhere.Namespace = "images"
	released.OwnerReferences = nil
	for _, job := range []*batchv1.Job{own, elsewhere, released, jobOf(owner2, "of-another", "3")} {
		g.Expect(behind[0].Add(job)).To(Succeed())
	}
	late := jobOf(owner1, "late", "9")
	g.Expect(behind[1].Add(late)).To(Succeed())

	owned, err := stores.Owned("mail", owner1)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(owned).To(ConsistOf(BeIdenticalTo(own), BeIdenticalTo(late)), "the Jobs of all stores, without copying")

	g.Expect(behind[0].Delete(own)).To(Succeed())
	g.Expect(stores.Owned("mail", owner1)).To(ConsistOf(late))
}
