// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"miracle.dev/scaledjob-operator/internal/pages"
)

// answering is an API server that answers lists as set.
func answering(list func(jobs *metav1.PartialObjectMetadataList, options *client.ListOptions) error) client.Reader {
	return reading(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, jobs client.ObjectList, opts ...client.ListOption) error {
			options := (&client.ListOptions{}).ApplyOptions(opts)
			return list(jobs.(*metav1.PartialObjectMetadataList), options)
		},
	})
}

func metadataOf(jobs ...*batchv1.Job) []metav1.PartialObjectMetadata {
	items := make([]metav1.PartialObjectMetadata, len(jobs))
	for i, job := range jobs {
		items[i].ObjectMeta = job.ObjectMeta
	}
	return items
}

// The previous leader may have created Jobs that the cache of this process does not show yet.
func TestTakeoverAwaitsJobsOfTheFormerLeader(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	of := func(uid types.UID, name, version string, change func(*metav1.OwnerReference)) *batchv1.Job {
		job := jobOf(uid, name, version)
		change(&job.OwnerReferences[0])
		return job
	}
	unowned := jobOf("unowned", "unowned", "9")
	unowned.OwnerReferences = nil
	lists := 0
	live := answering(func(jobs *metav1.PartialObjectMetadataList, options *client.ListOptions) error {
		lists++
		g.Expect(jobs.GroupVersionKind()).To(Equal(batchv1.SchemeGroupVersion.WithKind("JobList")),
			"only metadata is listed")
		g.Expect(options.Namespace).To(BeEmpty())
		jobs.Items = metadataOf(
			jobOf(owner1, "new", "9"),
			jobOf(owner2, "old", "7"),
			of("newer API", "newer", "9", func(ref *metav1.OwnerReference) { ref.APIVersion = "batch.miracle.dev/v2" }),
			unowned,
			of("another kind", "kind", "9", func(ref *metav1.OwnerReference) { ref.Kind = "CronJob" }),
			of("another group", "group", "9", func(ref *metav1.OwnerReference) { ref.APIVersion = "keda.sh/v1alpha1" }),
			of("no group version", "version", "9", func(ref *metav1.OwnerReference) { ref.APIVersion = "a/b/c" }),
			of("not the controller", "loose", "9", func(ref *metav1.OwnerReference) { ref.Controller = nil }),
		)
		return nil
	})
	stores, behind := storesAt(g, "7")
	gate := NewGate(reading(interceptor.Funcs{}), live, stores, nil)

	for _, uid := range []types.UID{owner1, "newer API"} {
		g.Expect(isReady(t.Context(), g, gate, uid)).To(BeFalse(), "%s", uid)
	}
	g.Expect(gate.owners).To(HaveLen(2), "Jobs of other owners are ignored")
	for _, uid := range []types.UID{owner2, "unowned", "another kind", "another group", "no group version", "not the controller"} {
		g.Expect(isReady(t.Context(), g, gate, uid)).To(BeTrue(), "%s", uid)
	}
	g.Expect(behind[0].Replace(nil, "9")).To(Succeed())
	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue())
	g.Expect(lists).To(Equal(1))
}

func TestTakeoverReadsEveryPage(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pages := map[string]struct {
		job  *batchv1.Job
		next string
	}{
		"":       {jobOf("first", "a", "9"), "second"},
		"second": {jobOf("second", "b", "9"), "third"},
		"third":  {jobOf("third", "c", "9"), ""},
	}
	live := answering(func(jobs *metav1.PartialObjectMetadataList, options *client.ListOptions) error {
		g.Expect(options.Limit).To(BeNumerically(">", 0), "the list comes in pages")
		page := pages[options.Continue]
		jobs.Items, jobs.Continue = metadataOf(page.job), page.next
		return nil
	})
	stores, _ := storesAt(g, "7")
	gate := NewGate(reading(interceptor.Funcs{}), live, stores, nil)

	for _, uid := range []types.UID{"first", "second", "third"} {
		g.Expect(isReady(t.Context(), g, gate, uid)).To(BeFalse(), "%s", uid)
	}
}

func TestTakeoverListsTheWatchedNamespaces(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var listed []string
	live := answering(func(_ *metav1.PartialObjectMetadataList, options *client.ListOptions) error {
		listed = append(listed, options.Namespace)
		return nil
	})
	stores, _ := storesAt(g, "7", "7")
	gate := NewGate(reading(interceptor.Funcs{}), live, stores, []string{"mail", "images"})

	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue())
	g.Expect(isReady(t.Context(), g, gate, owner2)).To(BeTrue())
	g.Expect(listed).To(Equal([]string{"mail", "images"}))
}

// With several stores, their versions are not conclusive, so each Job is looked up.
func TestTakeoverWithSeveralStores(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	live := answering(func(jobs *metav1.PartialObjectMetadataList, options *client.ListOptions) error {
		if options.Namespace == "mail" {
			jobs.Items = metadataOf(jobOf(owner1, "shown", "3"), jobOf(owner2, "hidden", "3"))
		}
		return nil
	})
	stores, _ := storesAt(g, "7", "7")
	gate := NewGate(reading(interceptor.Funcs{}, jobOf(owner1, "shown", "")), live, stores, []string{"mail", "images"})

	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue())
	g.Expect(isReady(t.Context(), g, gate, owner2)).To(BeFalse())
}

// A Job that the cache shows during the list may be deleted before its ScaledJob is reconciled.
func TestTakeoverWithSeveralStoresAndADeletedJob(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	shown := jobOf(owner1, "shown", "")
	live := answering(func(jobs *metav1.PartialObjectMetadataList, options *client.ListOptions) error {
		if options.Namespace == "mail" {
			namesake := jobOf(owner2, "namesake", "3")
			namesake.UID = "another"
			jobs.Items = metadataOf(jobOf(owner1, "shown", "3"), namesake)
		}
		return nil
	})
	stores, _ := storesAt(g, "7", "7")
	cached := reading(interceptor.Funcs{}, shown, jobOf(owner2, "namesake", ""))
	gate := NewGate(cached, live, stores, []string{"mail", "images"})

	g.Expect(isReady(t.Context(), g, gate, "another owner")).To(BeTrue(), "the list is complete")
	g.Expect(cached.Delete(t.Context(), shown)).To(Succeed())
	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue())
	g.Expect(isReady(t.Context(), g, gate, owner2)).To(BeFalse(), "the cache shows an older Job of the same name")
}

func TestTakeoverIsTriedAgain(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	lists := 0
	live := answering(func(jobs *metav1.PartialObjectMetadataList, _ *client.ListOptions) error {
		if lists++; lists < 3 {
			return errAway
		}
		jobs.Items = metadataOf(jobOf(owner1, "new", "9"))
		return nil
	})
	stores, _ := storesAt(g, "7")
	gate := NewGate(reading(interceptor.Funcs{}), live, stores, nil)

	for range 2 {
		ready, err := gate.Ready(t.Context(), owner1)
		g.Expect(err).To(MatchError(errAway))
		g.Expect(ready).To(BeFalse())
	}
	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeFalse(), "the gate waits for the Job on the last page")
	g.Expect(lists).To(Equal(3))
}

func TestTakeoverHappensOnceForAll(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var lists atomic.Int32
	live := answering(func(jobs *metav1.PartialObjectMetadataList, _ *client.ListOptions) error {
		lists.Add(1)
		for i := range 8 {
			jobs.Items = append(jobs.Items, metadataOf(jobOf(types.UID(fmt.Sprint(i)), fmt.Sprint("job-", i), "9"))...)
		}
		return nil
	})
	stores, _ := storesAt(g, "7")
	gate := NewGate(reading(interceptor.Funcs{}), live, stores, nil)

	var passes sync.WaitGroup
	for i := range 8 {
		passes.Go(func() {
			ready, err := gate.Ready(t.Context(), types.UID(fmt.Sprint(i)))
			if err != nil || ready {
				t.Errorf("owner %d does not wait: ready %t, error %v", i, ready, err)
			}
		})
	}
	passes.Wait()
	g.Expect(lists.Load()).To(Equal(int32(1)))
}

// The list has all Jobs of the cluster. If it takes longer than a reconcile may, it must still complete eventually.
func TestTakeoverOfManyJobsEndsThoughEachPassIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const count, perPage, pass = 200, 500 * time.Millisecond, time.Minute
		g := NewWithT(t)
		live := reading(interceptor.Funcs{
			List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				select {
				case <-time.After(perPage):
				case <-ctx.Done():
					return ctx.Err()
				}
				number, _ := strconv.Atoi((&client.ListOptions{}).ApplyOptions(opts).Continue)
				jobs := list.(*metav1.PartialObjectMetadataList)
				jobs.Items, jobs.Continue = nil, ""
				if number+1 < count {
					jobs.Continue = strconv.Itoa(number + 1)
				}
				return nil
			},
		})
		stores, _ := storesAt(g, "7")
		gate := NewGate(reading(interceptor.Funcs{}), live, stores, nil)
		ready := false
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), pass)
			ready, _ = gate.Ready(ctx, owner1)
			cancel()
			if ready {
				break
			}
		}
		g.Expect(ready).To(BeTrue(), "100,000 Jobs in pages that take %s each, after ten reconciles of %s", perPage, pass)
	})
}

// Whoever may create Jobs may give them long metadata.
func TestTakeoverKeepsOnlyWhatTheGateNeeds(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	long := map[string]string{"note": "long"}
	live := answering(func(jobs *metav1.PartialObjectMetadataList, options *client.ListOptions) error {
		if options.Continue != "" {
			return errAway
		}
		foreign, old, awaited := jobOf(owner1, "foreign", "9"), jobOf(owner1, "old", "7"), jobOf(owner1, "new", "9")
		foreign.OwnerReferences = nil
		for _, job := range []*batchv1.Job{foreign, old, awaited} {
			job.Annotations = long
		}
		jobs.Items, jobs.Continue = metadataOf(foreign, old, awaited), "second"
		return nil
	})
	stores, _ := storesAt(g, "7")
	gate := NewGate(reading(interceptor.Funcs{}), live, stores, nil)

	_, err := gate.Ready(t.Context(), owner1)
	g.Expect(err).To(MatchError(errAway))
	g.Expect(gate.takeover.listed).To(HaveLen(1))
	g.Expect(gate.takeover.listed[0].job.Name).To(Equal("new"))
	g.Expect(gate.takeover.listed[0].job.Annotations).To(BeEmpty())
	g.Expect(gate.takeover.listed[0].job.OwnerReferences).To(BeEmpty())
}

// A page whose objects are too large is asked for again with fewer.
func TestTakeoverOfLargeJobs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var limits []int64
	live := answering(func(jobs *metav1.PartialObjectMetadataList, options *client.ListOptions) error {
		limits = append(limits, options.Limit)
		if options.Limit > 10 {
			return fmt.Errorf("reading: %w", pages.ErrTooLarge)
		}
		jobs.Items = metadataOf(jobOf(owner1, "new", "9"))
		return nil
	})
	stores, _ := storesAt(g, "7")
	gate := NewGate(reading(interceptor.Funcs{}), live, stores, nil)

	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeFalse(), "the gate waits for the Job")
	g.Expect(len(limits)).To(BeNumerically(">", 1))
}
