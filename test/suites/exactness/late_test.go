// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/skip"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

const (
	// createsAtOnce is how many creates of a ScaledJob are under way at a time.
	createsAtOnce = 16
	// createsPerReconcile is how many come from one look at its Jobs and its queue.
	createsPerReconcile = 512
)

// The operator dies with creates under way, and the API server carries them out
// only after the next operator has created what it takes to be missing. They are
// not the last that were sent, so that the next one sees Jobs that came after
// them.
func TestCreatesCarriedOutAfterTheNextOperator(t *testing.T) {
	t.Parallel()
	const messages = 100
	g := NewWithT(t)
	namespace, former := newNamespace(t), startProxy(t)
	killed := startOperator(t, former, []string{namespace})
	s := newScaledJob(t, namespace, "bursting", 1, messages)
	s.awaitSubscription(t)
	former.creates.hold(30, 2)

	g.Expect(s.PushTogether(t.Context(), messages)).To(Succeed())
	g.Eventually(former.creates.held).WithTimeout(timeout).Should(BeNumerically(">=", createsAtOnce))
	g.Expect(killed.Kill()).To(Succeed())
	g.Eventually(former.creates.unanswered).WithTimeout(timeout).Should(BeNumerically(">=", createsAtOnce))
	g.Expect(s.Witness.Created()).To(BeNumerically("<", messages-createsAtOnce), "Jobs at the moment of the kill")

	next := startOperator(t, startProxy(t), []string{namespace})
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", messages))
	g.Expect(former.creates.release()).To(Succeed())
	prove(t, next, witness.Row{
		Fault:   "kill -9 with 16 creates under way, which are carried out once the next operator is done",
		Promise: "the next operator takes their names first, so that they fail",
	}, claim{scaledJob: s, jobs: messages})
}

// The same in a storm, with Jobs that finish and are deleted all the time: their
// names are missing as well, below those of the creates under way.
func TestCreatesOfAStormCarriedOutAfterTheNextOperator(t *testing.T) {
	skip.UnderShort(t, "TestCreatesCarriedOutAfterTheNextOperator is the same with fewer messages")
	t.Parallel()
	g := NewWithT(t)
	namespace, former := newNamespace(t), startProxy(t)
	killed := startOperator(t, former, []string{namespace})
	s := newScaledJob(t, namespace, "worked", 1, saturation)
	s.awaitSubscription(t)
	former.lag(longLag)

	goHome := putToWork(t, s)
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", 4*saturation))
	former.creates.hold(0, 1)
	g.Eventually(former.creates.held).WithTimeout(timeout).Should(BeNumerically(">", 0))
	g.Expect(killed.Kill()).To(Succeed())
	finished := goHome()

	next := startOperator(t, startProxy(t), []string{namespace})
	g.Eventually(s.Witness.Created).WithTimeout(timeout).Should(BeNumerically(">=", saturation+finished))
	g.Expect(former.creates.release()).To(Succeed())
	prove(t, next, witness.Row{
		Fault: "kill -9 in a storm with creates under way, which are carried out once the next operator is done," +
			" after older Jobs were deleted",
		Promise: "the next operator takes their names first, so that they fail",
	}, claim{scaledJob: s, jobs: saturation + finished})
}

// lateCreates keeps creates of Jobs back, if told so, and carries them out when
// told, whatever has become of those who sent them.
type lateCreates struct {
	next http.RoundTripper

	mu sync.Mutex
	// passing is how many creates pass before one of interval is held. No interval
	// means that none is.
	passing, interval int
	waiting           []*lateCreate
	broken            int
}

// lateCreate is a create that is kept back, and whose sender may give it up.
type lateCreate struct {
	request *http.Request
	sender  context.Context
	answer  chan answer
}

type answer struct {
	response *http.Response
	err      error
}

// hold lets so many creates pass, and then keeps back one of every interval.
func (l *lateCreates) hold(passing, interval int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passing, l.interval = passing, interval
}

// held is how many creates are kept back.
func (l *lateCreates) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// unanswered is how many creates were given up by those who sent them.
func (l *lateCreates) unanswered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// release has all creates carried out that are kept back, and keeps back none
// from now on. It returns when the API server has answered all of them.
func (l *lateCreates) release() error {
	l.mu.Lock()
	released := l.waiting
	l.waiting, l.interval = nil, 0
	l.mu.Unlock()
	var carrying errgroup.Group
	for _, late := range released {
		carrying.Go(func() error { return late.carryOut(l.next) })
	}
	return carrying.Wait()
}

// carryOut sends the create on, and its answer back if somebody waits for it.
func (l *lateCreate) carryOut(next http.RoundTripper) error {
	response, err := next.RoundTrip(l.request)
	select {
	case l.answer <- answer{response, err}:
		return err
	case <-l.sender.Done():
	}
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// RoundTrip implements http.RoundTripper.
func (l *lateCreates) RoundTrip(request *http.Request) (*http.Response, error) {
	if !createsJob(request) || !l.draw() {
		return l.next.RoundTrip(request)
	}
	late, err := l.keep(request)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-late.answer:
		return a.response, a.err
	case <-late.sender.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.broken++
		return nil, late.sender.Err()
	}
}

// draw says whether a create is to be kept back.
func (l *lateCreates) draw() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passing--
	return l.interval > 0 && l.passing < 0 && l.passing%l.interval == 0
}

// keep keeps a request back. It has been read to its end, as if it were with the
// API server already.
func (l *lateCreates) keep(request *http.Request) (*lateCreate, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	sender := request.Context()
	late := &lateCreate{
		request: request.Clone(context.WithoutCancel(sender)), sender: sender, answer: make(chan answer),
	}
	late.request.Body = io.NopCloser(bytes.NewReader(body))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, late)
	return late, nil
}
