// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package enqueue

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

const workers = 32

// office is Places, and the reconciles that they have requested since the last look.
type office struct {
	*Places

	mu        sync.Mutex
	requested []types.NamespacedName
}

func newOffice(places int) *office {
	o := &office{}
	o.Places = NewPlaces(places, func(_ int, keys ...types.NamespacedName) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.requested = append(o.requested, keys...)
	})
	return o
}

// forgetCreates makes all creates end long ago.
func (o *office) forgetCreates() {
	o.Places.mu.Lock()
	defer o.Places.mu.Unlock()
	o.creates = recent{}
}

// calls returns the ScaledJobs that were called since the last look.
func (o *office) calls() []types.NamespacedName {
	o.mu.Lock()
	defer o.mu.Unlock()
	called := o.requested
	o.requested = nil
	return called
}

// ask is a reconcile that asks for one place, and ends. It returns how to give the place back; nil if there is none.
// Creates that took a place before have ended long ago.
func (o *office) ask(key types.NamespacedName, kind Kind) (giveBack func()) {
	o.forgetCreates()
	pass := o.Begin(key)
	defer pass.End(EndedFully)
	return pass.Take(kind)
}

// fill asks for a place for as many ScaledJobs of a namespace, and returns how to give back those that it got.
func (o *office) fill(namespace string, kind Kind, count int) (held []func()) {
	for i := range count {
		if giveBack := o.ask(named(namespace, i), kind); giveBack != nil {
			held = append(held, giveBack)
		}
	}
	return held
}

func named(namespace string, i int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}
}

// At worst, a namespace has half of the places for creates, and a quarter for each kind that is not urgent.
func TestSharesOfANamespace(t *testing.T) {
	t.Parallel()
	for kind, want := range map[Kind]int{
		KindCreate: 16, KindSlowCreate: 12, KindCondition: 12, KindRollout: 12, KindDryRun: 12, KindDelete: 8, KindNumbers: 8,
	} {
		NewWithT(t).Expect(newOffice(workers).fill("a", kind, 100)).To(HaveLen(want), "kind %d", kind)
	}
}

// Namespaces that do their worst with all kinds, in any order, leave places of each kind to another one.
func TestNamespacesLeavePlacesOfAllKinds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o, g := newOffice(workers), NewWithT(t)
		order := make([]Kind, kinds)
		for kind := range order {
			order[kind] = Kind(kind)
		}
		hostile := rapid.IntRange(1, 3).Draw(t, "namespaces")
		for i := range hostile {
			for _, kind := range rapid.Permutation(order).Draw(t, "order") {
				o.fill(fmt.Sprint("hostile-", i), kind, 100)
			}
		}
		g.Expect(o.free).To(BeNumerically(">", workers/8-hostile))
		for _, kind := range order {
			giveBack := o.ask(named("b", 0), kind)
			g.Expect(giveBack).NotTo(BeNil(), "kind %d", kind)
			giveBack()
		}
	})
}

// What is slow with one kind of requests does not keep others from another kind.
func TestCreatesKeepNobodyFromDeletes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	o := newOffice(workers)
	for _, namespace := range []string{"a", "b"} {
		o.fill(namespace, KindCreate, 100)
	}
	for kind := range kinds {
		giveBack := o.ask(named("c", 0), kind)
		g.Expect(giveBack).NotTo(BeNil(), "kind %d", kind)
		giveBack()
	}
}

// The more namespaces share the places, the less each of them gets; the last one gets one too.
func TestManyNamespacesShareThePlaces(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	o := newOffice(workers)
	var shares []int
	for i := range 5 {
		shares = append(shares, len(o.fill(fmt.Sprint(i), KindCreate, 100)))
	}
	g.Expect(shares).To(Equal([]int{16, 8, 4, 1, 1}))

	o = newOffice(workers)
	for i := range workers {
		o.fill(fmt.Sprint(i), KindNumbers, 100)
	}
	g.Expect(o.free).To(Equal(workers/2), "what is not urgent leaves half to creates, however many want it")
}

// A place that is given back goes to the namespaces in turn, and within one in the order in which they came.
func TestPlacesAreGivenInTurn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	o := newOffice(2)
	held := o.fill("other", KindCreate, 1)
	g.Expect(held).To(HaveLen(1))
	g.Expect(o.fill("first", KindCreate, 1)).To(HaveLen(1), "all places are in use")
	for i := range 3 {
		g.Expect(o.ask(named("a", i), KindCreate)).To(BeNil())
	}
	g.Expect(o.ask(named("b", 0), KindCreate)).To(BeNil())
	g.Expect(o.calls()).To(BeEmpty())

	next := held[0]
	for _, want := range []types.NamespacedName{named("a", 0), named("b", 0), named("a", 1), named("a", 2)} {
		next()
		g.Expect(o.calls()).To(Equal([]types.NamespacedName{want}))
		g.Expect(o.ask(named("c", 0), KindCreate)).To(BeNil(), "a place for which another one is called is not free")
		o.Begin(named("c", 0)).End(EndedFully)
		next = o.ask(want, KindCreate)
		g.Expect(next).NotTo(BeNil(), "%v", want)
	}
	g.Expect(o.lines[KindCreate].tickets).To(BeEmpty())
}

// Nothing is kept for a ScaledJob that goes, fails, or no longer needs the place for which it is called.
func TestNothingIsReserved(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]Ending{"gone": EndedFully, "failed": EndedFailing, "early": EndedEarly} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nothingIsReserved(NewWithT(t), KindDryRun, how)
		})
	}
}

func nothingIsReserved(g Gomega, kind Kind, how Ending) {
	o := newOffice(1)
	held := o.fill("a", kind, 1)
	g.Expect(o.fill("b", kind, 3)).To(BeEmpty())
	held[0]()
	g.Expect(o.calls()).To(Equal([]types.NamespacedName{named("b", 0)}))

	o.Begin(named("b", 0)).End(how)

	g.Expect(o.calls()).To(Equal([]types.NamespacedName{named("b", 1)}), "the next one is called")
	giveBack := o.ask(named("b", 1), kind)
	g.Expect(giveBack).NotTo(BeNil())
	if how == EndedEarly {
		g.Expect(o.ask(named("b", 0), kind)).To(BeNil())
		giveBack()
		g.Expect(o.calls()).To(Equal([]types.NamespacedName{named("b", 0)}), "it has kept its turn")
	}
}

// Whatever reconciles do, no more places are in use than there are, a ScaledJob that waits is called or waits for a
// place in use, and at the end all places are free and nobody waits.
func TestPlacesAreNeverLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		o := newOffice(rapid.IntRange(1, 8).Draw(t, "places"))
		total := o.free
		var held []func()
		called := map[types.NamespacedName]bool{}
		key := func() types.NamespacedName {
			return named(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"), rapid.IntRange(0, 3).Draw(t, "name"))
		}
		reconcile := func(key types.NamespacedName, kind Kind, how Ending) {
			delete(called, key)
			pass := o.Begin(key)
			if how != EndedEarly {
				if giveBack := pass.Take(kind); giveBack != nil {
					held = append(held, giveBack)
				}
			}
			pass.End(how)
		}
		note := func() {
			for _, each := range o.calls() {
				called[each] = true
			}
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "end") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "request")
				held[i]()
				held = slices.Delete(held, i, i+1)
			} else {
				reconcile(key(), Kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind")),
					Ending(rapid.IntRange(0, 2).Draw(t, "ending")))
			}
			note()
			g.Expect(o.free + len(held)).To(Equal(total))
		}
		for _, giveBack := range held {
			giveBack()
		}
		o.forgetCreates()
		o.call()
		note()
		for len(called) > 0 {
			for each := range called {
				delete(called, each)
				o.Begin(each).End(EndedFully)
			}
			note()
		}
		g.Expect(o.free).To(Equal(total))
		for kind := range o.lines {
			for _, left := range o.lines[kind].tickets {
				g.Expect(left.state).To(Equal(away), "%v of kind %d", left.key, kind)
			}
			g.Expect(o.lines[kind].called).To(BeZero())
			g.Expect(o.lines[kind].held).To(BeEmpty())
		}
	})
}
