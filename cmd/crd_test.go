// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/restmapper"
	clienttesting "k8s.io/client-go/testing"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// served is the discovery document of an API server with the CRD.
var served = &metav1.APIResourceList{
	GroupVersion: "batch.miracle.dev/v1",
	APIResources: []metav1.APIResource{{Name: "scaledjobs", SingularName: "scaledjob", Namespaced: true, Kind: "ScaledJob"}},
}

// newDiscovery returns the discovery client of an API server without the CRD.
func newDiscovery() *fakediscovery.FakeDiscovery {
	return &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{{
		GroupVersion: "batch/v1", APIResources: []metav1.APIResource{{Name: "jobs", Namespaced: true, Kind: "Job"}},
	}}}}
}

// remembering is a mapper that caches discovery until it is reset.
func remembering(discovery *fakediscovery.FakeDiscovery) apimeta.RESTMapper {
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
}

// listen returns a logger, and the lines that it has logged.
func listen(lines *[]string) logr.Logger {
	return funcr.New(func(_, line string) { *lines = append(*lines, line) }, funcr.Options{})
}

func TestCRDThatIsThereIsNotAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		discovery := newDiscovery()
		discovery.Resources = append(discovery.Resources, served)
		var lines []string
		began := time.Now()
		g.Expect(await(t.Context(), listen(&lines), servesScaledJobs(remembering(discovery)))).To(BeTrue())
		g.Expect(time.Since(began)).To(BeZero())
		g.Expect(lines).To(BeEmpty())
	})
}

func TestCRDThatComesLaterIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		discovery := newDiscovery()
		began := time.Now()
		discovery.PrependReactor("get", "group", func(clienttesting.Action) (bool, runtime.Object, error) {
			if time.Since(began) > 10*time.Second && len(discovery.Resources) == 1 {
				discovery.Resources = append(discovery.Resources, served)
			}
			return false, nil, nil
		})
		var lines []string
		g.Expect(await(t.Context(), listen(&lines), servesScaledJobs(remembering(discovery)))).To(BeTrue())
		g.Expect(time.Since(began)).To(Equal(11 * time.Second))
		g.Expect(lines).To(ConsistOf(ContainSubstring("waiting for their CRD")))
	})
}

func TestCRDThatDoesNotCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var lines []string
		began := time.Now()
		found, err := await(t.Context(), listen(&lines), servesScaledJobs(remembering(newDiscovery())))
		g.Expect(found).To(BeFalse())
		g.Expect(time.Since(began)).To(Equal(time.Minute))
		g.Expect(err).To(MatchError(And(
			ContainSubstring("install their CRD with kubectl apply -f crds.yaml of the same release, or make install in its source"),
			ContainSubstring(`no matches for kind "ScaledJob"`),
		)))
		g.Expect(lines).To(HaveLen(1))
	})
}

// answering is a mapper that returns these errors in turn, and then finds the kind.
type answering struct {
	apimeta.RESTMapper
	errs []error
}

func (a *answering) RESTMapping(schema.GroupKind, ...string) (*apimeta.RESTMapping, error) {
	if len(a.errs) == 0 {
		return &apimeta.RESTMapping{}, nil
	}
	err := a.errs[0]
	a.errs = a.errs[1:]
	return nil, err
}

func TestCRDIsAwaitedOnlyWhileTheAPIServerMayServeItYet(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch.miracle.dev", Resource: "scaledjobs"}
	type row struct {
		err   error
		waits bool
	}
	bubble.Each(t, map[string]row{
		"no kind":      {&apimeta.NoKindMatchError{}, true},
		"no resource":  {&apimeta.NoResourceMatchError{}, true},
		"not yet":      {apierrors.NewServiceUnavailable("starting"), true},
		"unauthorized": {apierrors.NewUnauthorized("who are you?"), false},
		"forbidden":    {apierrors.NewForbidden(jobs, "", nil), false},
		"unreachable":  {errors.New("connection refused"), false},
	}, func(t *testing.T, g Gomega, c row) {
		var lines []string
		found, err := await(t.Context(), listen(&lines), servesScaledJobs(&answering{errs: []error{c.err, c.err}}))
		g.Expect(found).To(Equal(c.waits))
		if c.waits {
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(lines).To(HaveLen(1))
			return
		}
		g.Expect(err).To(MatchError(c.err))
		g.Expect(lines).To(BeEmpty())
	})
}

func TestWaitingForTheCRDEndsWithTheContext(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"nothing is served": false, "the API server does not answer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				discovery := newDiscovery()
				answer := make(chan struct{})
				defer close(answer)
				if hangs {
					discovery.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
						<-answer
						return false, nil, nil
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second+time.Second/2)
				defer cancel()
				began := time.Now()
				g.Expect(await(ctx, logr.Discard(), servesScaledJobs(remembering(discovery)))).To(BeFalse())
				g.Expect(time.Since(began)).To(Equal(3*time.Second + time.Second/2))
			})
		})
	}
}

// documents answers with an OpenAPI document whose ScaledJobs have these fields, or with an error, one after the other.
// The last one stays.
func documents(all ...any) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		now := all[0]
		if len(all) > 1 {
			all = all[1:]
		}
		if err, failed := now.(error); failed {
			return nil, err
		}
		const kind = `"x-kubernetes-group-version-kind":[{"group":"batch.miracle.dev","version":"v1","kind":"ScaledJob"}]`
		return fmt.Appendf(nil, `{"components":{"schemas":{"ScaledJob":{%s,%s}}}}`, kind, now), nil
	}
}

const (
	allFields = `"x-kubernetes-preserve-unknown-fields":true`
	noStatus  = `"properties":{"spec":` + anyFields + `}`
	anyFields = `{` + allFields + `}`
)

func TestCRDThatIsOlderIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var lines []string
		log := listen(&lines)
		began := time.Now()
		g.Expect(await(t.Context(), log, hasAllFields(documents(noStatus, noStatus, allFields), log))).To(BeTrue())
		g.Expect(time.Since(began)).To(Equal(2 * time.Second))
		g.Expect(lines).To(ConsistOf(And(ContainSubstring("waiting for that of this version"), ContainSubstring(`"lacks"="status"`))))
	})
}

func TestCRDThatStaysOlder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var lines []string
		log := listen(&lines)
		began := time.Now()
		met, err := await(t.Context(), log, hasAllFields(documents(noStatus), log))
		g.Expect(met).To(BeFalse())
		g.Expect(time.Since(began)).To(Equal(time.Minute))
		g.Expect(err).To(MatchError("the CRD is older than this operator and lacks the fields status: install that of this version with " +
			"kubectl apply -f crds.yaml of the same release, or make install in its source"))
		g.Expect(lines).To(HaveLen(1))
	})
}

// The schema follows the kind. A proxy may hide it.
func TestFieldsThatAreNotPublished(t *testing.T) {
	absent := apierrors.NewNotFound(schema.GroupResource{}, "")
	type row struct {
		answers []any
		waits   time.Duration
		says    string
	}
	bubble.Each(t, map[string]row{
		"published at once":     {[]any{allFields}, 0, ""},
		"published later":       {[]any{absent, absent, allFields}, 2 * time.Second, ""},
		"never published":       {[]any{absent}, 5 * time.Second, "starting without comparing them"},
		"forbidden":             {[]any{apierrors.NewForbidden(schema.GroupResource{}, "", nil)}, 0, "starting without comparing them"},
		"the connection breaks": {[]any{errors.New("connection reset")}, 0, "starting without comparing them"},
	}, func(t *testing.T, g Gomega, c row) {
		var lines []string
		log := listen(&lines)
		began := time.Now()
		g.Expect(await(t.Context(), log, hasAllFields(documents(c.answers...), log))).To(BeTrue())
		g.Expect(time.Since(began)).To(Equal(c.waits))
		if c.says == "" {
			g.Expect(lines).To(BeEmpty())
			return
		}
		g.Expect(lines).To(ConsistOf(ContainSubstring(c.says)))
	})
}

func TestFieldsAreNotAwaitedForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		hangs := func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var lines []string
		began := time.Now()
		g.Expect(await(t.Context(), logr.Discard(), hasAllFields(hangs, listen(&lines)))).To(BeTrue())
		g.Expect(time.Since(began)).To(Equal(5 * time.Second))
		g.Expect(lines).To(HaveLen(1))
	})
}
