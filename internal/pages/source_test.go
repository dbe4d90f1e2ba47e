// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// jobs is a source of Jobs whose pages may have this many bytes. A Job has as many as its name says.
type jobs struct {
	sizes []int
	asked []metav1.ListOptions
	// largest is the largest page that was read.
	largest int
}

func (j *jobs) list(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	j.asked = append(j.asked, options)
	page := &batchv1.JobList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	from, _ := strconv.Atoi(options.Continue)
	bytes := 0
	for i := from; i < min(from+int(options.Limit), len(j.sizes)); i++ {
		bytes += j.sizes[i]
		page.Items = append(page.Items, batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: map[string]string{"a": "b"}}})
		if next := i + 1; next < len(j.sizes) {
			page.Continue = fmt.Sprint(next)
		} else {
			page.Continue = ""
		}
	}
	if bytes > maxBytes && options.Limit > 1 {
		return nil, ErrTooLarge
	}
	j.largest = max(j.largest, bytes)
	return page, nil
}

func withoutLabels(object any) (any, error) {
	job := object.(*batchv1.Job)
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: job.Name}}, nil
}

// The Jobs of one namespace may be large and come between those of others.
func TestSourceReadsAllPages(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := &jobs{}
	for i := range 3000 {
		size := 1000
		if i/1000 == 1 {
			size = 1_500_000
		}
		all.sizes = append(all.sizes, size)
	}
	log := funcr.New(func(_, _ string) {}, funcr.Options{})
	source := Source(&toolscache.ListWatch{ListWithContextFunc: all.list}, withoutLabels, log)

	list, err := toolscache.ToListerWatcherWithContext(source).ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0", LabelSelector: "a=b"})

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.largest).To(BeNumerically("<=", maxBytes))
	g.Expect(len(all.asked)).To(BeNumerically("<", 600))
	g.Expect(all.asked[0].ResourceVersion).To(BeEmpty(), "the API server ignores the limit for version 0")
	g.Expect(all.asked[1].LabelSelector).To(Equal("a=b"))
	whole := list.(*metav1.List)
	g.Expect(whole.ResourceVersion).To(Equal("7"))
	g.Expect(whole.Items).To(HaveLen(3000))
	for i, item := range whole.Items {
		g.Expect(item.Object).To(Equal(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}))
	}
}

func TestSourceFailsWithTheList(t *testing.T) {
	t.Parallel()
	expired := apierrors.NewResourceExpired("too old")
	source := Source(&toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, expired },
	}, withoutLabels, funcr.New(func(_, _ string) {}, funcr.Options{}))
	_, err := toolscache.ToListerWatcherWithContext(source).ListWithContext(t.Context(), metav1.ListOptions{})
	NewWithT(t).Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "the informer lists again")
}

// An informer lists from the source, also if the API server would stream.
func TestInformerOfASource(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		watched := make(chan metav1.ListOptions, 1)
		from := &toolscache.ListWatch{
			ListWithContextFunc: (&jobs{sizes: make([]int, 1200)}).list,
			WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
				select {
				case watched <- options:
				default: // The first is enough.
				}
				return watch.NewFake(), nil
			},
		}
		log := funcr.New(func(_, _ string) {}, funcr.Options{})
		informer := toolscache.NewSharedIndexInformer(Source(from, withoutLabels, log), &batchv1.Job{}, 0, nil)
		g.Expect(informer.SetTransform(withoutLabels)).To(Succeed())
		go informer.RunWithContext(t.Context())
		synctest.Wait()
		var asked metav1.ListOptions
		g.Expect(watched).To(Receive(&asked))
		g.Expect(asked.SendInitialEvents).To(BeNil())
		g.Expect(asked.ResourceVersion).To(Equal("7"), "it goes on where the list ends")
		g.Expect(informer.HasSynced()).To(BeTrue())
		g.Expect(informer.GetStore().List()).To(HaveLen(1200))
		g.Expect(informer.GetStore().List()).To(HaveEach(HaveField("Labels", BeEmpty())))
	})
}
