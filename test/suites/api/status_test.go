// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/report"
)

// The status of a ScaledJob may be removed. That of a later ScaledJob of the same name stays.
func TestStatusOfANamesakeIsNotDropped(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	writer := report.StatusWriter{
		Client: api, Take: func(bool, time.Time) func() { return func() {} }, Yields: func() bool { return false },
	}
	created := object(g, at("metadata.name", "namesake"))
	g.Expect(api.Create(t.Context(), created)).To(Succeed())
	stored := func() *scaledjobv1.ScaledJob {
		var sj scaledjobv1.ScaledJob
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(created), &sj)).To(Succeed())
		return &sj
	}
	record := report.NewStatusRecord()
	_, err := writer.WriteAtOnce(t.Context(), stored(), &record, &scaledjobv1.ScaledJobStatus{ActiveJobs: 3})
	g.Expect(err).NotTo(HaveOccurred())

	former := stored()
	former.UID = "00000000-0000-0000-0000-000000000000"
	g.Expect(writer.Drop(t.Context(), former)).NotTo(Succeed())
	g.Expect(stored().Status.ActiveJobs).To(Equal(int32(3)))

	g.Expect(writer.Drop(t.Context(), stored())).To(Succeed())
	g.Expect(stored().Status).To(Equal(scaledjobv1.ScaledJobStatus{}))
	g.Expect(writer.Drop(t.Context(), stored())).To(Succeed(), "there is none any more")
}
