// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestPrompt(t *testing.T) {
	t.Parallel()
	next := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{Header: http.Header{"Retry-After": {"60"}}, Body: http.NoBody}, nil
	})
	for target, want := range map[string]string{
		"POST /apis/batch/v1/namespaces/a/jobs":  "",
		"POST /api/v1/namespaces/a/events":       "60",
		"GET /apis/batch/v1/namespaces/a/jobs":   "60",
		"POST /apis/batch/v1/namespaces/a/jobsx": "60",
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			method, path, _ := strings.Cut(target, " ")
			response, err := Prompt(next).RoundTrip(httptest.NewRequest(method, path, nil))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			g.Expect(response.Header.Get("Retry-After")).To(Equal(want))
		})
	}
}
