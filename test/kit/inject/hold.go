// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// held is a request that is kept back, and that its sender may give up.
type held struct {
	request *http.Request
	sender  context.Context
	answer  chan answer
}

type answer struct {
	response *http.Response
	err      error
}

// hold keeps a request back. It has been read to its end, as if it were with the API server already.
func (r *Rule) hold(request *http.Request) (*http.Response, error) {
	sender := request.Context()
	kept := &held{request: request.Clone(context.WithoutCancel(sender)), sender: sender, answer: make(chan answer)}
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		kept.request.Body = io.NopCloser(bytes.NewReader(body))
	}
	if !r.keep(kept) {
		return r.carryOut(kept.request)
	}
	select {
	case a := <-kept.answer:
		return a.response, a.err
	case <-sender.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.abandoned++
		return nil, sender.Err()
	}
}

// keep reports whether the request waits for the release, which may be over.
func (r *Rule) keep(kept *held) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.waiting = append(r.waiting, kept)
	}
	return !r.ended
}

// Held is how many requests are kept back.
func (r *Rule) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// Abandoned is how many requests were given up by their senders while they were kept back.
func (r *Rule) Abandoned() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.abandoned
}

// Release ends the rule, and has all requests carried out that are kept back. It returns when the API server has answered
// all of them.
func (r *Rule) Release() error {
	r.mu.Lock()
	released := r.waiting
	r.waiting, r.ended = nil, true
	r.mu.Unlock()
	var carrying errgroup.Group
	for _, kept := range released {
		carrying.Go(func() error {
			return kept.deliver(r.carryOut(kept.request))
		})
	}
	return carrying.Wait()
}

// deliver sends the answer back if somebody waits for it.
func (h *held) deliver(response *http.Response, err error) error {
	select {
	case h.answer <- answer{response, err}:
		return err
	case <-h.sender.Done():
	}
	if err != nil {
		return err
	}
	return response.Body.Close()
}
