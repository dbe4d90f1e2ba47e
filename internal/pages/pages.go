// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package pages bounds what requests to the API server take, however many objects there are and however large they are:
// it reads long lists in pages, asks for no objects of which nothing is read, and sends few events at the same time.
package pages

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
)

const (
	// most is the maximum number of objects of a page.
	most = 500
	// maxBytes is the maximum size of the answer with a page of several objects.
	maxBytes = 8 << 20
	// The number of objects is divided by shrinkFactor if the answer is larger. Otherwise it grows by one in
	// growthFraction, so that few answers are too large.
	shrinkFactor   = 4
	growthFraction = 8
)

// ErrTooLarge means that a page of several objects is larger than it may be.
var ErrTooLarge = errors.New("the page is larger than the operator reads at once")

// LimitResponseSize is a transport that fails requests for pages of several objects with ErrTooLarge if the answer is
// too large. A page of one object has no bound here: etcd has one.
func LimitResponseSize(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err != nil || request.Method != http.MethodGet || limitOf(request) <= 1 {
			return response, err
		}
		return bounded(response)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// limitOf returns the number of objects that a list asks for, and 0 for all of them and for other requests.
func limitOf(request *http.Request) int64 {
	limit, err := strconv.ParseInt(request.URL.Query().Get("limit"), 10, 64)
	if err != nil {
		return 0
	}
	return limit
}

// bounded reads the body, so that client-go need not log an error of reading it.
func bounded(response *http.Response) (*http.Response, error) {
	var body bytes.Buffer
	size, err := body.ReadFrom(io.LimitReader(response.Body, maxBytes+1))
	if closing := response.Body.Close(); err == nil {
		err = closing
	}
	switch {
	case err != nil:
		return nil, err
	case size > maxBytes:
		return nil, ErrTooLarge
	}
	response.Body = io.NopCloser(&body)
	return response, nil
}

// Size is the number of objects to ask for. It follows the size of the objects. The zero value is ready for use.
type Size struct{ limit int64 }

// Read calls read with the limit of a page, and calls it again with a lower one while the page is too large.
func (s *Size) Read(read func(limit int64) error) error {
	if s.limit == 0 {
		s.limit = most
	}
	for {
		err := read(s.limit)
		switch {
		case err == nil:
			s.limit = min(s.limit+s.limit/growthFraction+1, most)
			return nil
		case s.limit == 1 || !errors.Is(err, ErrTooLarge):
			return err
		}
		s.limit = max(s.limit/shrinkFactor, 1)
	}
}
