// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobcontrol

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"miracle.dev/scaledjob-operator/internal/pages"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
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

// takenOver returns a gate after its takeover, and the stores of its namespaces, which are at version 7.
func takenOver(
	ctx context.Context, g Gomega, cached, live client.Reader, namespaces ...string,
) (*Gate, []toolscache.Store) {
	stores, behind := storesAt(g, slices.Repeat([]string{"7"}, max(1, len(namespaces)))...)
	gate := NewGate(cached, live, stores, namespaces)
	g.Expect(gate.Takeover().WaitForSync(ctx)).To(Succeed())
	return gate, behind
}

// The previous leader may have created Jobs that the cache of this process does not show yet.
func TestTakeoverAwaitsJobsOfThePreviousLeader(t *testing.T) {
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
			jobOf(owner1, "early", "7"),
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
	gate, behind := takenOver(t.Context(), g, noJobs(), live)

	for _, uid := range []types.UID{owner1, "newer API"} {
		g.Expect(isReady(t.Context(), g, gate, uid)).To(BeFalse(), "%s", uid)
	}
	g.Expect(gate.owners).To(HaveLen(2), "Jobs of other owners are ignored")
	// Whoever may create Jobs may give them long metadata.
	g.Expect(gate.owners[owner1].awaited).To(HaveLen(1), "nothing else is kept")
	g.Expect(gate.owners[owner1].awaited[0].key.Name).To(Equal("new"))
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
	gate, _ := takenOver(t.Context(), g, noJobs(), live)

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
	gate, _ := takenOver(t.Context(), g, noJobs(), live, "mail", "images")

	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue())
	g.Expect(isReady(t.Context(), g, gate, owner2)).To(BeTrue())
	g.Expect(listed).To(Equal([]string{"mail", "images"}))
}

// With several stores, their versions are not conclusive, so each Job is looked up. A Job that the cache shows during
// the list may be deleted before its ScaledJob is reconciled.
func TestTakeoverWithSeveralStores(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	deleted, namesake := jobOf(owner1, "deleted", ""), jobOf(owner2, "namesake", "3")
	namesake.UID = "another"
	live := answering(func(jobs *metav1.PartialObjectMetadataList, options *client.ListOptions) error {
		if options.Namespace == "mail" {
			jobs.Items = metadataOf(
				jobOf(owner1, "deleted", "3"), namesake, jobOf("of shown", "shown", "3"), jobOf("of hidden", "hidden", "3"),
			)
		}
		return nil
	})
	cached := reading(interceptor.Funcs{}, deleted, jobOf(owner2, "namesake", ""), jobOf("of shown", "shown", ""))
	gate, _ := takenOver(t.Context(), g, cached, live, "mail", "images")

	g.Expect(isReady(t.Context(), g, gate, "another owner")).To(BeTrue(), "the list is complete")
	g.Expect(isReady(t.Context(), g, gate, "of shown")).To(BeTrue())
	g.Expect(isReady(t.Context(), g, gate, "of hidden")).To(BeFalse())
	g.Expect(cached.Delete(t.Context(), deleted)).To(Succeed())
	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeTrue())
	g.Expect(isReady(t.Context(), g, gate, owner2)).To(BeFalse(), "the cache shows an older Job of the same name")
}

func TestTakeoverIsTriedAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		var asked []string
		live := answering(func(jobs *metav1.PartialObjectMetadataList, options *client.ListOptions) error {
			switch asked = append(asked, options.Continue); len(asked) {
			case 1:
				jobs.Continue = "second"
				return nil
			case 2:
				return errAway
			case 3:
				return apierrors.NewResourceExpired("too old")
			}
			jobs.Items = metadataOf(jobOf(owner1, "new", "9"))
			return nil
		})
		gate, _ := takenOver(t.Context(), g, noJobs(), live)

		g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeFalse(), "the gate waits for the Job on the last page")
		g.Expect(asked).To(Equal([]string{"", "second", "second", ""}), "a failed page is read again, an expired list from the start")
	})
}

// A process that stops does not wait for the API server.
func TestTakeoverEndsWithItsContext(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		live := answering(func(*metav1.PartialObjectMetadataList, *client.ListOptions) error { return errAway })
		gate, _ := gateAt(g, noJobs(), live, "7")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		g.Expect(gate.Takeover().WaitForSync(ctx)).To(And(MatchError(context.DeadlineExceeded), MatchError(errAway)))
	})
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
	gate, _ := takenOver(t.Context(), g, noJobs(), live)

	g.Expect(isReady(t.Context(), g, gate, owner1)).To(BeFalse(), "the gate waits for the Job")
	g.Expect(len(limits)).To(BeNumerically(">", 1))
}
