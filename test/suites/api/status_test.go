// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/report"
)

// The status of a ScaledJob may be removed. That of a later ScaledJob of the same name stays.
func TestStatusOfANamesakeIsNotDropped(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	writer := &report.StatusWriter{Client: api}
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

// A condition of another field manager stays that manager's, and one of an earlier version of the operator is removed.
func TestConditionsOfOthersAreNotAdopted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	created := object(g, at("metadata.name", "foreign-condition"))
	g.Expect(api.Create(t.Context(), created)).To(Succeed())
	var sj scaledjobv1.ScaledJob
	read := func() { g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(created), &sj)).To(Succeed()) }
	condition := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now().Rfc3339Copy()}
	}
	read()
	record := report.NewStatusRecord()
	_, err := (&report.StatusWriter{Client: api}).WriteAtOnce(t.Context(), &sj, &record,
		&scaledjobv1.ScaledJobStatus{Conditions: []metav1.Condition{condition("Earlier")}})
	g.Expect(err).NotTo(HaveOccurred())
	foreign := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Foreign", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}}}
	foreign.SetGroupVersionKind(created.GroupVersionKind())
	foreign.SetNamespace(created.GetNamespace())
	foreign.SetName(created.GetName())
	g.Expect(api.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(foreign), client.FieldOwner("another"))).To(Succeed())

	read()
	g.Expect(sj.Status.Conditions).To(HaveLen(2))
	record = report.NewStatusRecord() // As after a restart.
	status := report.Status(&sj, &sj.Status, report.Reconciled{}, time.Now())
	_, err = (&report.StatusWriter{Client: api}).WriteAtOnce(t.Context(), &sj, &record, status)
	g.Expect(err).NotTo(HaveOccurred())
	read()
	g.Expect(apimeta.FindStatusCondition(sj.Status.Conditions, "Earlier")).To(BeNil())
	g.Expect(apimeta.FindStatusCondition(sj.Status.Conditions, "Foreign")).NotTo(BeNil())
	g.Expect(apimeta.FindStatusCondition(sj.Status.Conditions, scaledjobv1.ConditionReady)).NotTo(BeNil())
	for _, of := range sj.ManagedFields {
		if of.Manager == "scaledjob-operator" {
			g.Expect(of.FieldsV1.GetRawString()).NotTo(ContainSubstring("Foreign"))
		}
	}
}
