// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"miracle.dev/scaledjob-operator/internal/preflight"
)

// authorizer has no permission whose command contains one of these texts.
type authorizer struct {
	mu     sync.Mutex
	denied []string
	asked  int
}

func (a *authorizer) ask(_ context.Context, permission preflight.Permission) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	return !slices.ContainsFunc(a.denied, func(denied string) bool { return strings.Contains(permission.String(), denied) }), nil
}

func (a *authorizer) grant() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.denied = nil
}

var twoNamespaces = preflight.Needs{Namespaces: []string{"a", "b"}, Lease: "ops/leader", AuthenticatesMetrics: true}

func TestPermissionsThatAreThereAreNotAwaited(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var lines []string
	all := &authorizer{}
	g.Expect(await(t.Context(), listen(&lines), mayWork(twoNamespaces, all.ask, listen(&lines)))).To(BeTrue())
	g.Expect(lines).To(BeEmpty())
	g.Expect(all.asked).To(Equal(12*2 + 3 + 2))
}

func TestPermissionsThatComeLaterAreAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		some := &authorizer{denied: []string{"create jobs.batch --namespace=b"}}
		time.AfterFunc(10*time.Second+time.Second/2, some.grant)
		var lines []string
		began := time.Now()
		g.Expect(await(t.Context(), listen(&lines), mayWork(twoNamespaces, some.ask, listen(&lines)))).To(BeTrue())
		g.Expect(time.Since(began)).To(Equal(11 * time.Second))
		g.Expect(lines).To(ConsistOf(And(
			ContainSubstring("waiting for them"), ContainSubstring("kubectl auth can-i create jobs.batch --namespace=b"))))
	})
}

func TestPermissionsThatDoNotCome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		needs  preflight.Needs
		denied string
		says   []string
	}{
		"in one of two namespaces": {twoNamespaces, "--namespace=b", []string{
			"in each namespace that --watch-namespaces names",
			"kubectl auth can-i patch scaledjobs.batch.miracle.dev --subresource=status --namespace=b; " +
				"kubectl auth can-i create jobs.batch --namespace=b",
		}},
		"in all namespaces": {preflight.Needs{}, "jobs.batch ", []string{
			"in all namespaces, or name the namespaces to watch with --watch-namespaces",
			"kubectl auth can-i create jobs.batch --all-namespaces",
		}},
		"for the lease": {twoNamespaces, "leases", []string{"kubectl auth can-i update leases.coordination.k8s.io/leader --namespace=ops"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				some := &authorizer{denied: []string{c.denied}}
				var lines []string
				began := time.Now()
				met, err := await(t.Context(), listen(&lines), mayWork(c.needs, some.ask, listen(&lines)))
				g.Expect(met).To(BeFalse())
				g.Expect(time.Since(began)).To(Equal(time.Minute))
				for _, says := range c.says {
					g.Expect(err).To(MatchError(ContainSubstring(says)))
				}
				g.Expect(lines).To(HaveLen(1))
			})
		})
	}
}

func TestPermissionsThatTheOperatorCanWorkWithout(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	some := &authorizer{denied: []string{"events", "tokenreviews"}}
	var lines []string
	g.Expect(await(t.Context(), listen(&lines), mayWork(twoNamespaces, some.ask, listen(&lines)))).To(BeTrue())
	g.Expect(lines).To(ConsistOf(
		And(ContainSubstring("there are no events about ScaledJobs"), ContainSubstring("patch events.events.k8s.io --namespace=b")),
		And(ContainSubstring("nobody can read the metrics"), ContainSubstring("create tokenreviews.authentication.k8s.io")),
	))
}

func TestPermissionsThatAreNotTold(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]preflight.Asker{
		"refused": func(context.Context, preflight.Permission) (bool, error) { return false, errors.New("away") },
		"no answer": func(ctx context.Context, _ preflight.Permission) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var lines []string
				began := time.Now()
				g.Expect(await(t.Context(), listen(&lines), mayWork(twoNamespaces, ask, listen(&lines)))).To(BeTrue())
				g.Expect(time.Since(began)).To(BeNumerically("<=", reviewTimeout))
				g.Expect(lines).To(ConsistOf(ContainSubstring("starting without checking them")))
			})
		})
	}
}

func TestPermissionsInManyNamespacesAreNotAllAskedFor(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	needs := preflight.Needs{Namespaces: make([]string, 1000)}
	all := &authorizer{}
	var lines []string
	g.Expect(await(t.Context(), listen(&lines), mayWork(needs, all.ask, listen(&lines)))).To(BeTrue())
	g.Expect(all.asked).To(Equal(12 * preflight.MaxNamespaces))
	g.Expect(lines).To(ConsistOf(ContainSubstring("only in the first of the namespaces")))
}

// The CRD and the permissions together may not take longer than the startupProbe allows.
func TestAllPrerequisitesShareTheirTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var lines []string
		log := listen(&lines)
		later := &answering{errs: slices.Repeat([]error{&apimeta.NoKindMatchError{}}, 40)}
		none := &authorizer{denied: []string{"jobs"}}
		began := time.Now()
		met, err := await(t.Context(), log,
			servesScaledJobs(later), hasAllFields(documents(allFields), log), mayWork(twoNamespaces, none.ask, log))
		g.Expect(met).To(BeFalse())
		g.Expect(err).To(MatchError(ContainSubstring("lacks permissions")))
		g.Expect(time.Since(began)).To(Equal(time.Minute))
		g.Expect(lines).To(HaveLen(2))
	})
}

func TestAPrerequisiteThatHangsTakesNoLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		asked := 0
		hangs := func(ctx context.Context) (*obstacle, error) {
			if asked++; asked > 50 {
				<-ctx.Done()
				return nil, nil
			}
			return &obstacle{reason: errors.New("the CRD is missing")}, nil
		}
		began := time.Now()
		met, err := await(t.Context(), logr.Discard(), hangs)
		g.Expect(met).To(BeFalse())
		g.Expect(err).To(MatchError("the CRD is missing"))
		g.Expect(time.Since(began)).To(Equal(time.Minute))
	})
}
