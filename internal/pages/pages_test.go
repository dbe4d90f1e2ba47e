// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

var errAway = errors.New("away")

func TestSizeFollowsTheObjects(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var asked []int64
	fits := func(most int64) func(int64) error {
		return func(limit int64) error {
			asked = append(asked, limit)
			if limit > most {
				return fmt.Errorf("listing: %w", ErrTooLarge)
			}
			return nil
		}
	}
	var size Size
	g.Expect(size.Read(fits(1000))).To(Succeed())
	g.Expect(size.Read(fits(40))).To(Succeed())
	g.Expect(size.Read(fits(1000))).To(Succeed())
	g.Expect(asked).To(Equal([]int64{500, 500, 125, 31, 35}))

	asked = nil
	g.Expect(size.Read(fits(1))).To(Succeed())
	g.Expect(asked).To(Equal([]int64{40, 10, 2, 1}))
	asked = nil
	g.Expect(size.Read(fits(0))).To(MatchError(ErrTooLarge), "a page has one object at least")
	g.Expect(asked).To(Equal([]int64{2, 1}))
	asked = nil
	g.Expect(size.Read(func(int64) error { return errAway })).To(MatchError(errAway), "other errors are not repeated")
}

func TestLimitResponseSize(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := maxBytes
		if r.URL.Query().Has("large") {
			size++
		}
		_, _ = io.WriteString(w, strings.Repeat("a", size))
	}))
	t.Cleanup(server.Close)
	api := &http.Client{Transport: LimitResponseSize(http.DefaultTransport)}
	for name, c := range map[string]struct {
		method, query string
		tooLarge      bool
	}{
		"a page of the largest size":   {http.MethodGet, "limit=500", false},
		"a larger page":                {http.MethodGet, "limit=500&large", true},
		"a larger page of two objects": {http.MethodGet, "limit=2&large", true},
		"one large object":             {http.MethodGet, "limit=1&large", false},
		"no list in pages":             {http.MethodGet, "large", false},
		"no list":                      {http.MethodPost, "limit=500&large", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			request := must.Get(http.NewRequestWithContext(t.Context(), c.method, server.URL+"?"+c.query, nil))(g)
			response, err := api.Do(request)
			if c.tooLarge {
				g.Expect(err).To(MatchError(ErrTooLarge))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			body, err := io.ReadAll(response.Body)
			g.Expect(errors.Join(err, response.Body.Close())).To(Succeed())
			g.Expect(len(body)).To(BeNumerically(">=", maxBytes))
		})
	}
}
