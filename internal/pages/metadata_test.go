// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
)

func TestMetadataOnly(t *testing.T) {
	t.Parallel()
	const whole = "application/json"
	for name, c := range map[string]struct{ method, path, accept string }{
		"a status":           {http.MethodPatch, "/apis/batch.miracle.dev/v1/namespaces/mail/scaledjobs/emails/status", onlyMetadata},
		"a delete":           {http.MethodDelete, "/apis/batch/v1/namespaces/mail/jobs/emails-1", onlyMetadata},
		"a create":           {http.MethodPost, "/apis/batch/v1/namespaces/mail/jobs", whole},
		"a read of a status": {http.MethodGet, "/apis/batch.miracle.dev/v1/namespaces/mail/scaledjobs/emails/status", whole},
		"an event":           {http.MethodPatch, "/apis/events.k8s.io/v1/namespaces/mail/events/emails.1", whole},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			request := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
			request.Header.Set("Accept", whole)
			var sent string
			response, err := MetadataOnly(roundTripper(func(request *http.Request) (*http.Response, error) {
				sent = request.Header.Get("Accept")
				return &http.Response{Body: http.NoBody}, nil
			})).RoundTrip(request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			g.Expect(sent).To(Equal(c.accept))
			g.Expect(request.Header.Get("Accept")).To(Equal(whole), "the request of the caller is unchanged")
		})
	}
}
