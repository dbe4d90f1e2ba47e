// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
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

// ofScaledJobs is the discovery document of an API server with the CRD.
var ofScaledJobs = &metav1.APIResourceList{
	GroupVersion: "batch.miracle.dev/v1",
	APIResources: []metav1.APIResource{{Name: "scaledjobs", SingularName: "scaledjob", Namespaced: true, Kind: "ScaledJob"}},
}

// newDiscovery returns the discovery client of an API server that serves Jobs, and these.
func newDiscovery(others ...*metav1.APIResourceList) *fakediscovery.FakeDiscovery {
	return &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: append(others, &metav1.APIResourceList{
		GroupVersion: "batch/v1", APIResources: []metav1.APIResource{{Name: "jobs", Namespaced: true, Kind: "Job"}},
	})}}
}

// remembering is a mapper that caches discovery until it is reset.
func remembering(discovery *fakediscovery.FakeDiscovery) apimeta.RESTMapper {
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
}

// needs makes a prerequisite, which may log.
type needs func(log logr.Logger) prerequisite

// served needs a mapper that finds ScaledJobs.
func served(mapper apimeta.RESTMapper) needs {
	return func(logr.Logger) prerequisite { return servesScaledJobs(mapper) }
}

// fields needs OpenAPI documents with all fields.
func fields(read func(context.Context) ([]byte, error)) needs {
	return func(log logr.Logger) prerequisite { return hasAllFields(read, log) }
}

// ended is how the wait for a prerequisite has ended, after which time, and what was logged.
type ended struct {
	met   bool
	err   error
	after time.Duration
	lines []string
}

func waitFor(ctx context.Context, what needs) (is ended) {
	log := funcr.New(func(_, line string) { is.lines = append(is.lines, line) }, funcr.Options{})
	began := time.Now()
	is.met, is.err = await(ctx, log, what(log))
	is.after = time.Since(began)
	return is
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

// The CRD is awaited only while the API server may serve it yet. The schema follows the kind, and a proxy may hide it.
func TestHowLongTheCRDIsAwaited(t *testing.T) {
	const noKind, older, notCompared = "waiting for their CRD", "waiting for that of this version", "starting without comparing them"
	jobs := schema.GroupResource{Group: "batch.miracle.dev", Resource: "scaledjobs"}
	forbidden, absent := apierrors.NewForbidden(jobs, "", nil), apierrors.NewNotFound(jobs, "")
	unauthorized, unreachable := apierrors.NewUnauthorized("who are you?"), errors.New("connection refused")
	failing := func(err error) needs { return served(&answering{errs: []error{err, err}}) }
	silent := func(ctx context.Context) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	type row struct {
		what  needs
		after time.Duration
		logs  string
		err   OmegaMatcher // nil if what is needed is there in the end
	}
	bubble.Each(t, map[string]row{
		"it is there": {what: served(remembering(newDiscovery(ofScaledJobs)))},
		"it does not come": {served(remembering(newDiscovery())), time.Minute, noKind, MatchError(And(
			ContainSubstring("install their CRD with kubectl apply -f crds.yaml of the same release, or make install in its source"),
			ContainSubstring(`no matches for kind "ScaledJob"`),
		))},
		"no kind":      {failing(&apimeta.NoKindMatchError{}), 2 * time.Second, noKind, nil},
		"no resource":  {failing(&apimeta.NoResourceMatchError{}), 2 * time.Second, noKind, nil},
		"not yet":      {failing(apierrors.NewServiceUnavailable("starting")), 2 * time.Second, noKind, nil},
		"unauthorized": {failing(unauthorized), 0, "", MatchError(unauthorized)},
		"forbidden":    {failing(forbidden), 0, "", MatchError(forbidden)},
		"unreachable":  {failing(unreachable), 0, "", MatchError(unreachable)},

		"it is older": {fields(documents(noStatus, noStatus, allFields)), 2 * time.Second, older + `" "lacks"="status"`, nil},
		"it stays older": {fields(documents(noStatus)), time.Minute, older, MatchError(
			"the CRD is older than this operator and lacks the fields status: install that of this version with " +
				"kubectl apply -f crds.yaml of the same release, or make install in its source",
		)},
		"fields published at once":         {what: fields(documents(allFields))},
		"fields published later":           {fields(documents(absent, absent, allFields)), 2 * time.Second, "", nil},
		"fields never published":           {fields(documents(absent)), 5 * time.Second, notCompared, nil},
		"fields forbidden":                 {fields(documents(forbidden)), 0, notCompared, nil},
		"fields while the connection ends": {fields(documents(errors.New("connection reset"))), 0, notCompared, nil},
		"fields that are not answered":     {fields(silent), 5 * time.Second, notCompared, nil},
	}, func(t *testing.T, g Gomega, c row) {
		is := waitFor(t.Context(), c.what)
		g.Expect(is.after).To(Equal(c.after))
		g.Expect(is.met).To(Equal(c.err == nil))
		if c.err == nil {
			c.err = Succeed()
		}
		g.Expect(is.err).To(c.err)
		lines := BeEmpty()
		if c.logs != "" {
			lines = ConsistOf(ContainSubstring(c.logs))
		}
		g.Expect(is.lines).To(lines)
	})
}

func TestCRDThatComesLaterIsAwaited(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		discovery := newDiscovery()
		began := time.Now()
		discovery.PrependReactor("get", "group", func(clienttesting.Action) (bool, runtime.Object, error) {
			if time.Since(began) > 10*time.Second && len(discovery.Resources) == 1 {
				discovery.Resources = append(discovery.Resources, ofScaledJobs)
			}
			return false, nil, nil
		})
		is := waitFor(t.Context(), served(remembering(discovery)))
		g.Expect(is.lines).To(ConsistOf(ContainSubstring("waiting for their CRD")))
		g.Expect(is).To(Equal(ended{met: true, after: 11 * time.Second, lines: is.lines}))
	})
}

func TestWaitingForTheCRDEndsWithTheContext(t *testing.T) {
	bubble.Each(t, map[string]bool{
		"nothing is served": false, "the API server does not answer": true,
	}, func(t *testing.T, g Gomega, hangs bool) {
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
		is := waitFor(ctx, served(remembering(discovery)))
		g.Expect(is).To(Equal(ended{after: 3*time.Second + time.Second/2, lines: is.lines}))
	})
}
