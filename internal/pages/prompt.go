// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"net/http"
	"strings"
)

// Prompt is a transport that hands on the answer to a create of a Job at once. client-go would wait as long as a
// Retry-After in it says, also if an admission webhook has denied the Job, and the caller would see no answer.
func Prompt(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/jobs") {
			response.Header.Del("Retry-After")
		}
		return response, err
	})
}
