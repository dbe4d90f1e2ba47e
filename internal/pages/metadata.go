// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"net/http"
	"strings"
)

// onlyMetadata asks for the metadata of an object instead of the whole object.
const onlyMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// MetadataOnly is a transport that asks for the metadata alone in the answers to deletes and to writes of a status. The
// API server would answer with the whole object, of which the operator reads nothing.
func MetadataOnly(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		status := request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/status")
		if !status && request.Method != http.MethodDelete {
			return next.RoundTrip(request)
		}
		request = request.Clone(request.Context())
		request.Header.Set("Accept", onlyMetadata)
		return next.RoundTrip(request)
	})
}
