// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/internal/cli/explain"
)

func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	parsed := &unstructured.Unstructured{}
	encoded, err := yaml.YAMLToJSON([]byte(manifest))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(parsed.UnmarshalJSON(encoded)).To(Succeed())
	return parsed
}

func TestWorkloadsSayWhyTheyAreNotAdmitted(t *testing.T) {
	t.Parallel()
	const head = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: w, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: mail-1, uid: u}]}, "
	for rest, message := range map[string]string{
		`spec: {active: true}, status: {conditions: [{type: QuotaReserved, status: "False", message: "couldn't assign flavors"}]}}`: "couldn't assign flavors",
		`spec: {active: true}, status: {conditions: [{type: QuotaReserved, status: "True", message: "reserved"}]}}`:                 "",
		`spec: {active: false}, status: {conditions: [{type: QuotaReserved, status: "False", message: "deactivated"}]}}`: "The Workload was deactivated. Delete " +
			"the Job to get another one.",
		`spec: {}}`: "The Workload was not considered yet. Its LocalQueue may not exist, or may be stopped.",
	} {
		NewWithT(t).Expect(workloadOf(object(t, head+rest))).To(Equal(explain.Workload{Job: "mail-1", Message: message}), rest)
	}
}

// A ScaledJob that an older CRD has accepted is shown as far as it can be read, and does not keep others from it.
func TestScaledJobsOfAnotherCRD(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj, err := decode(object(t, `
apiVersion: batch.miracle.dev/v1
kind: ScaledJob
metadata: {namespace: mail, name: emails, generation: 2}
spec: {queueName: emails, threshold: many}
status: {conditions: [{type: Ready, status: "False", reason: InvalidSpec, message: It is not valid., lastTransitionTime: "2026-03-01T12:00:00Z"}]}
`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sj.Name).To(Equal("emails"))
	g.Expect(newStatus(sj)).To(And(HaveField("Ready", "False"), HaveField("ReadyReason", "InvalidSpec"), HaveField("Current", BeFalse())))
	facts := explain.Facts{ScaledJob: sj}
	explanation := explain.Explain(facts)
	g.Expect(explanation.Text(defaultWidth)).To(ContainSubstring("The ScaledJob is not ready (InvalidSpec). It is not valid."))

	sj, err = decode(object(t, `
apiVersion: batch.miracle.dev/v1
kind: ScaledJob
metadata: {namespace: mail, name: emails}
spec: {queueName: emails, threshold: 3}
status: {activeJobs: many}
`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(newStatus(sj)).To(And(HaveField("Ready", "Unknown"), HaveField("Queues", ConsistOf(HaveField("Name", "emails")))))
}
