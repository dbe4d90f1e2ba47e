// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

func TestOptionsOfTheCache(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cached := &Cache{}

	options := cached.Options(nil, logr.Discard())
	g.Expect(options.DefaultNamespaces).To(BeNil(), "all of them")
	g.Expect(options.ReaderFailOnMissingInformer).To(BeTrue())
	store := options.NewInformer(nil, &batchv1.Job{}, 0, toolscache.Indexers{}).GetStore()
	g.Expect(store.Replace(nil, "7")).To(Succeed())
	g.Expect(cached.Check()).To(Succeed(), "the gate has the store")

	g.Expect(cached.Options([]string{"mail", "images"}, logr.Discard()).DefaultNamespaces).
		To(And(HaveLen(2), HaveKey("mail"), HaveKey("images")))
}

func TestScaledJobsComeStraightFromTheStore(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cached := &Cache{}
	_, err := cached.ScaledJob(emails)
	g.Expect(err).To(MatchError(errNoInformer), "none can be said not to exist")

	options := cached.Options([]string{"images", "mail"}, logr.Discard())
	var last toolscache.Store
	for range options.DefaultNamespaces {
		last = options.NewInformer(nil, &scaledjob.ScaledJob{}, 0, toolscache.Indexers{}).GetStore()
	}
	g.Expect(cached.ScaledJob(emails)).To(BeNil())
	sj := &scaledjob.ScaledJob{ScaledJob: *scaledJob()}
	g.Expect(last.Add(sj)).To(Succeed())
	g.Expect(cached.ScaledJob(emails)).To(BeIdenticalTo(sj), "of any store, without a copy")
}
