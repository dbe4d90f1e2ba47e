// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package sjtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

// objects are those that are there.
type objects struct {
	mu            sync.Mutex
	present, most int
	ever          map[int]bool
}

func (o *objects) create(_ context.Context, number int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ever[number] {
		return errors.New("it has come before")
	}
	o.ever[number] = true
	o.present++
	o.most = max(o.most, o.present)
	return nil
}

func (o *objects) delete(_ context.Context, number int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ever[number] {
		return errors.New("it has not come")
	}
	o.present--
	return nil
}

func TestChurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		o := &objects{ever: map[int]bool{}}
		c := &Churn{Create: o.create, Delete: o.delete, Present: 20, Interval: 100 * time.Millisecond}
		ctx, cancel := context.WithTimeout(t.Context(), 9950*time.Millisecond)
		defer cancel()

		g.Expect(c.Run(ctx)).To(Succeed())

		g.Expect(o.ever).To(HaveLen(100))
		g.Expect(c.Gone()).To(Equal(100))
		g.Expect(o.present).To(BeZero())
		g.Expect(o.most).To(BeNumerically("~", 20, churnWorkers))
	})
}

func TestChurnEndsWhenAllHaveCome(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	o := &objects{ever: map[int]bool{}}
	c := &Churn{Create: o.create, Delete: o.delete, Present: 3, Total: 10}

	g.Expect(c.Run(t.Context())).To(Succeed())

	g.Expect(o.ever).To(HaveLen(10))
	g.Expect(c.Gone()).To(Equal(10))
	g.Expect(o.present).To(BeZero())
}
