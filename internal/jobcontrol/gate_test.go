// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

const owner1, owner2 = types.UID("owner-1"), types.UID("owner-2")

// errAway is the error of an API server that does not answer.
var errAway = errors.New("the server is away")

// jobOf returns a Job that the ScaledJob with this UID controls, as the API server answers it.
func jobOf(uid types.UID, name, version string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "mail", Name: name, UID: types.UID("uid of " + name), ResourceVersion: version,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: scaledjobv1.GroupVersion.String(), Kind: "ScaledJob", Name: "emails", UID: uid, Controller: new(true),
		}},
	}}
}

// reading returns a reader with these Jobs, and with funcs as interceptors.
func reading(funcs interceptor.Funcs, jobs ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().
		WithTypeConverters(managedfields.NewDeducedTypeConverter()).
		WithObjects(jobs...).
		WithInterceptorFuncs(funcs).
		Build()
}

// storesAt returns Stores with one informer per version, which is at that version.
func storesAt(g Gomega, versions ...string) (*Stores, []toolscache.Store) {
	stores := &Stores{}
	var behind []toolscache.Store
	for _, version := range versions {
		store := stores.NewInformer(nil, &batchv1.Job{}, 0, toolscache.Indexers{}).GetStore()
		g.Expect(store.Replace(nil, version)).To(Succeed())
		behind = append(behind, store)
	}
	return stores, behind
}

// noJobs returns a reader without Jobs.
func noJobs() client.WithWatch { return reading(interceptor.Funcs{}) }

// asking returns a reader with these Jobs, which asks before each read whether it fails.
func asking(fails func() error, jobs ...client.Object) client.WithWatch {
	return reading(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := fails(); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
	}, jobs...)
}

// gateAt returns a gate with one informer per version, which is at that version.
func gateAt(g Gomega, cached, live client.Reader, versions ...string) (*Gate, []toolscache.Store) {
	stores, behind := storesAt(g, versions...)
	return NewGate(cached, live, stores, nil), behind
}

func isReady(ctx context.Context, g Gomega, gate *Gate, uid types.UID) bool {
	ready, err := gate.Synced(ctx, uid)
	g.Expect(err).NotTo(HaveOccurred())
	return ready
}

func TestReadyOnceTheStoreIsThere(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate, behind := gateAt(g, noJobs(), noJobs(), "5")
	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue(), "no Job was created")

	gate.recordCreate(owner1, 1, &jobOf(owner1, "a", "8").ObjectMeta)
	gate.recordCreate(owner1, 1, &jobOf(owner1, "b", "10").ObjectMeta)

	for _, version := range []string{"5", "7", "8", "9"} {
		g.Expect(behind[0].Replace(nil, version)).To(Succeed())
		g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeFalse(), "at %s", version)
		g.Expect(isReady(t.Context(), g, gate, owner2)).To(BeTrue(), "this owner has no created Job")
	}
	g.Expect(behind[0].Replace(nil, "10")).To(Succeed())
	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue())
	g.Expect(gate.awaited(owner1)).To(BeEmpty(), "settled creates are removed")
}

// If the store shows the Job, its version does not matter. That also covers versions that can't be compared.
func TestReadyOnceTheJobIsShown(t *testing.T) {
	bubble.Each(t, map[string][]string{
		"one store":              {"5"},
		"one that can't compare": {"not-a-number"},
		"several":                {"100", "5"},
	}, func(t *testing.T, g Gomega, versions []string) {
		cached := noJobs()
		gate, _ := gateAt(g, cached, noJobs(), versions...)
		gate.recordCreate(owner1, 1, &jobOf(owner1, "a", "8").ObjectMeta)
		g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeFalse())

		namesake := jobOf(owner1, "a", "")
		namesake.UID = "another"
		g.Expect(cached.Create(t.Context(), namesake)).To(Succeed())
		g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeFalse(), "the cache shows an earlier Job of the same name")

		g.Expect(cached.Delete(t.Context(), namesake)).To(Succeed())
		g.Expect(cached.Create(t.Context(), jobOf(owner1, "a", ""))).To(Succeed())
		g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue())
	})
}

// A Job that was created and deleted while the watch was interrupted never appears in the cache.
func TestReadySettledByTheServer(t *testing.T) {
	namesake := jobOf(owner1, "a", "")
	namesake.UID = "another"
	type row struct {
		live  []client.Object
		ready bool
	}
	bubble.Each(t, map[string]row{
		"it is deleted":                     {nil, true},
		"it is deleted, its name is reused": {[]client.Object{namesake}, true},
		"it exists":                         {[]client.Object{jobOf(owner1, "a", "")}, false},
	}, func(t *testing.T, g Gomega, c row) {
		asked := 0
		gate, _ := gateAt(g, noJobs(), asking(func() error { asked++; return nil }, c.live...), "5", "5")
		gate.recordCreate(owner1, 1, &jobOf(owner1, "a", "8").ObjectMeta)

		time.Sleep(settleAfter - time.Nanosecond)
		g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeFalse())
		g.Expect(asked).To(BeZero(), "the gate waits before it asks the API server")

		time.Sleep(time.Nanosecond)
		g.Expect(isReady(t.Context(), g, gate, owner1)).To(Equal(c.ready))
		g.Expect(asked).To(Equal(1))
	})
}

func TestReadyPassesOnErrors(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		away := map[string]error{}
		failing := func(name string) client.Reader {
			return asking(func() error { return away[name] })
		}
		gate, _ := gateAt(g, failing("cache"), failing("server"), "5", "5")
		gate.recordCreate(owner1, 1, &jobOf(owner1, "a", "8").ObjectMeta)
		time.Sleep(settleAfter)

		for _, name := range []string{"cache", "server"} {
			away[name] = errAway
			ready, err := gate.Synced(t.Context(), owner1)
			g.Expect(err).To(MatchError(errAway), name)
			g.Expect(ready).To(BeFalse(), name)
			away[name] = nil
		}
		g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue(),
			"the gate still waited for it, and it is settled now")
	})
}

func TestForget(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate, _ := gateAt(g, noJobs(), noJobs(), "5")
	gate.recordCreate(owner1, 1, &jobOf(owner1, "a", "8").ObjectMeta)
	gate.Lost(owner1, Unanswered{Ordinal: 3, Since: time.Now()})
	gate.skip(owner1, 4)

	gate.Forget(owner1)
	gate.Forget(owner2)

	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue())
	g.Expect(gate.Newest(owner1)).To(BeZero())
	g.Expect(gate.owners).To(BeEmpty())
}

func TestUnanswered(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := NewGate(nil, nil, nil, nil)
	g.Expect(gate.Observe(owner1, &jobs.Owned{})).To(BeEmpty())

	gate.Lost(owner1, Unanswered{Ordinal: 5, Since: start})
	gate.Lost(owner1, Unanswered{Ordinal: 3, Since: start})
	gate.Lost(owner2, Unanswered{Ordinal: 9, Since: start})
	g.Expect(gate.Observe(owner1, &jobs.Owned{})).To(Equal([]Unanswered{{Ordinal: 3, Since: start}, {Ordinal: 5, Since: start}}),
		"lowest ordinal first")

	again := start.Add(time.Second)
	gate.Lost(owner1, Unanswered{Ordinal: 3, Since: again})
	g.Expect(gate.Observe(owner1, &jobs.Owned{})).To(Equal([]Unanswered{{Ordinal: 3, Since: again}, {Ordinal: 5, Since: start}}),
		"a create that is sent again counts once")

	gate.settle(owner1, 5)
	gate.settle(owner1, 6)
	gate.settle("owner-3", 5)
	g.Expect(gate.Observe(owner1, &jobs.Owned{})).To(Equal([]Unanswered{{Ordinal: 3, Since: again}}))
	gate.Observe(owner2, &jobs.Owned{})[0].Ordinal = 8
	g.Expect(gate.Observe(owner2, &jobs.Owned{})).To(Equal([]Unanswered{{Ordinal: 9, Since: start}}), "the slice is a copy")
}

// The create can no longer be carried out. If it was, the cache may not show its Job yet.
func TestUnansweredIsResolvedInTheEnd(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	live := noJobs()
	gate, behind := gateAt(g, noJobs(), live, "0")
	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue())
	for _, job := range []*batchv1.Job{jobOf(owner1, "made", ""), jobOf(owner2, "foreign", "")} {
		g.Expect(live.Create(t.Context(), job)).To(Succeed())
	}
	late, lately := time.Now().Add(-resolveAfter-time.Second), time.Now()
	for i, name := range []string{"made", "not-made", "foreign"} {
		gate.Lost(owner1, Unanswered{Ordinal: int64(i + 1), Job: types.NamespacedName{Namespace: "mail", Name: name}, Since: late})
	}
	recent := Unanswered{Ordinal: 4, Job: types.NamespacedName{Namespace: "mail", Name: "recent"}, Since: lately}
	gate.Lost(owner1, recent)

	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeFalse(), "the gate waits for the created Job")
	g.Expect(behind[0].Replace(nil, "1000")).To(Succeed())
	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue())
	g.Expect(gate.Observe(owner1, &jobs.Owned{})).To(Equal([]Unanswered{recent}))
	g.Expect(free(gate, 2)).To(Equal([]int64{2, 5}), "the ordinal without a Job is free")
}

func TestUnansweredStaysWhileTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate, _ := gateAt(g, noJobs(), asking(func() error { return errAway }), "5")
	lost := Unanswered{Ordinal: 1, Since: time.Now().Add(-resolveAfter - time.Second)}
	gate.Lost(owner1, lost)

	_, err := gate.Synced(t.Context(), owner1)
	g.Expect(err).To(MatchError(errAway))
	g.Expect(gate.Observe(owner1, &jobs.Owned{})).To(Equal([]Unanswered{lost}))
}

func TestNewest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate := NewGate(nil, nil, nil, nil)
	now := time.Unix(1000, 0)
	g.Expect(gate.Newest(owner1)).To(BeZero())

	gate.Lost(owner1, Unanswered{Ordinal: 5, Since: now})
	g.Expect(gate.Newest(owner1)).To(Equal(int64(5)))
	gate.skip(owner1, 3)
	g.Expect(gate.Newest(owner1)).To(Equal(int64(5)))
	gate.settle(owner1, 5)
	g.Expect(gate.Newest(owner1)).To(Equal(int64(3)), "a skipped ordinal stays skipped")
	gate.skip(owner1, 2)
	g.Expect(gate.Newest(owner1)).To(Equal(int64(3)))

	gate.Lost(owner1, Unanswered{Ordinal: 7, Since: now})
	gate.skip(owner1, 7)
	g.Expect(gate.Observe(owner1, &jobs.Owned{})).To(BeEmpty(), "the name of another owner's Job is settled")
	g.Expect(gate.Newest(owner1)).To(Equal(int64(7)))
	g.Expect(gate.Newest(owner2)).To(BeZero())
}

// One goroutine per owner, like the work queue, while the store advances.
func TestConcurrentOwners(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	gate, behind := gateAt(g, noJobs(), noJobs(), "1")

	var passes sync.WaitGroup
	for i := range 8 {
		uid := types.UID(fmt.Sprintf("owner-%d", i))
		passes.Go(func() {
			for version := range 50 {
				if _, err := gate.Synced(t.Context(), uid); err != nil {
					t.Error(err)
				}
				gate.recordCreate(uid, 1, &jobOf(uid, "a", fmt.Sprint(version+1)).ObjectMeta)
				gate.Lost(uid, Unanswered{Ordinal: int64(version), Since: time.Now()})
				gate.Observe(uid, &jobs.Owned{})
				gate.Free(uid, 1)
				gate.Newest(uid)
				gate.settle(uid, int64(version))
			}
		})
	}
	for version := range 50 {
		g.Expect(behind[0].Replace(nil, fmt.Sprint(version+1))).To(Succeed())
	}
	passes.Wait()

	for i := range 8 {
		g.Expect(isReady(t.Context(), g, gate, types.UID(fmt.Sprintf("owner-%d", i)))).To(BeTrue())
	}
}
