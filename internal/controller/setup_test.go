// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"miracle.dev/scaledjob-operator/internal/jobcontrol"
)

func TestCacheOptions(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	stores := &jobcontrol.Stores{}

	options := CacheOptions(stores, nil, logr.Discard())
	g.Expect(options.DefaultNamespaces).To(BeNil(), "all of them")
	g.Expect(options.ReaderFailOnMissingInformer).To(BeTrue())
	store := options.NewInformer(nil, &batchv1.Job{}, 0, toolscache.Indexers{}).GetStore()
	g.Expect(store.Replace(nil, "7")).To(Succeed())
	g.Expect(stores.Check()).To(Succeed(), "the gate has the store")

	g.Expect(CacheOptions(stores, []string{"mail", "images"}, logr.Discard()).DefaultNamespaces).
		To(And(HaveLen(2), HaveKey("mail"), HaveKey("images")))
}
