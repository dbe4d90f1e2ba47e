// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestStatusWritesAreThoseWithSuccessByAnyVerb(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const of = `apiserver_request_total{dry_run="",group="batch.miracle.dev",scope="resource",version="v1",`
	g.Expect(sumStatusWrites(strings.NewReader(strings.Join([]string{
		of + `code="200",component="apiserver",resource="scaledjobs",subresource="status",verb="APPLY"} 10`,
		of + `code="200",component="apiserver",resource="scaledjobs",subresource="status",verb="PATCH"} 3`,
		of + `code="409",component="apiserver",resource="scaledjobs",subresource="status",verb="APPLY"} 100`,
		of + `code="200",component="apiserver",resource="scaledjobs",subresource="status",verb="GET"} 200`,
		of + `code="201",component="apiserver",resource="scaledjobs",subresource="",verb="POST"} 400`,
		of + `code="200",component="apiserver",resource="jobs",subresource="status",verb="APPLY"} 800`,
		`apiserver_request_sli_duration_seconds_count{code="200",resource="scaledjobs",subresource="status",verb="APPLY"} 1600`,
	}, "\n")))).To(Equal(13))
}

func TestAPIServerThatCountsNothingIsNoProofThatNothingWasWritten(t *testing.T) {
	t.Parallel()
	_, err := sumStatusWrites(strings.NewReader("etcd_requests_total{} 5\n"))
	NewWithT(t).Expect(err).To(HaveOccurred())
}
