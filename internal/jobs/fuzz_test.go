// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"maps"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// ownerNames are the names that the API server accepts for a ScaledJob.
var ownerNames = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// FuzzName shows that every Job of every ScaledJob has a valid and unique name, as long as those of its other Jobs.
func FuzzName(f *testing.F) {
	f.Add("emails", "uid-1", int64(1), "uid-2", int64(1))
	f.Add("a-very-long-name-of-a-scaledjob.with-dots-and-dashes-up-to-its-end", "", int64(0), "", int64(-1))
	f.Add("0.0", "1/1", int64(1), "1", int64(11))
	f.Fuzz(func(t *testing.T, owner, uid string, ordinal int64, otherUID string, otherOrdinal int64) {
		if len(owner) > 253 || !ownerNames.MatchString(owner) {
			return
		}
		name, other := Name(owner, types.UID(uid), ordinal), Name(owner, types.UID(otherUID), otherOrdinal)
		if faults := validation.IsDNS1123Label(name); len(faults) > 0 || len(name) > maxNameLength || len(name) != len(other) {
			t.Errorf("%s, %s: %v", name, other, faults)
		}
		same := uid == otherUID && ordinal == otherOrdinal
		if (name == other) != same {
			t.Errorf("%q/%d gives %s, %q/%d gives %s", uid, ordinal, name, otherUID, otherOrdinal, other)
		}
	})
}

// FuzzClassify shows that a Job counts exactly once, in the right state, whatever users have written into it.
func FuzzClassify(f *testing.F) {
	f.Add("1", "hash", "Complete", "True", int32(1), true)
	f.Add("-9223372036854775808", "", "Failed", "True", int32(-1), true)
	f.Add("99999999999999999999", "\x00", "Suspended", "True", int32(0), true)
	f.Add("+1", "", "Complete", "Unknown", int32(0), false)
	f.Add("7", "9223372036854775807", "Failed", "True", int32(0), true)
	f.Fuzz(func(t *testing.T, ordinal, hash, kind, status string, ready int32, controller bool) {
		g := NewWithT(t)
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Name: Name("emails", "uid-1", 7),
				Annotations: map[string]string{
					scaledjobv1.AnnotationOrdinal: ordinal, scaledjobv1.AnnotationOrdinalFloor: hash, scaledjobv1.AnnotationTemplateHash: hash,
				},
				OwnerReferences: []metav1.OwnerReference{{Name: "emails", UID: "uid-1", Controller: &controller}},
			},
			Status: batchv1.JobStatus{
				Ready:      &ready,
				Conditions: []batchv1.JobCondition{{Type: batchv1.JobConditionType(kind), Status: corev1.ConditionStatus(status)}},
			},
		}
		owned := Classify([]*batchv1.Job{job}, "uid-1")
		counted := len(owned.Active) + len(owned.Succeeded) + len(owned.Failed)
		g.Expect(counted == 1).To(Equal(controller))
		g.Expect(len(owned.Active) == 1).To(Equal(controller && !Finished(job)))
		g.Expect(owned.Pending()).To(BeNumerically("<=", len(owned.Active)))
		own, floor := Ordinal(&job.ObjectMeta)
		g.Expect(own).To(Or(BeZero(), Equal(int64(7))), "an ordinal is only valid with the matching name")
		g.Expect(floor).To(And(BeNumerically(">=", 0), BeNumerically("<", 7)),
			"the floor is below the Job's own ordinal")
		g.Expect(len(owned.Prunable(0, 0))).To(Equal(counted - len(owned.Active)))
		g.Expect(HasTemplate(job, hash)).To(BeTrue())
		g.Expect(HasTemplate(job, hash+"x")).To(BeFalse())
	})
}

// FuzzBuild shows that the metadata of a template can't change the owner of a Job, and that only labels and annotations
// are copied from it.
func FuzzBuild(f *testing.F) {
	f.Add("team", "mail", "note", "of the Job", int64(3), int64(7))
	f.Add(scaledjobv1.LabelScaledJob, "another", scaledjobv1.AnnotationOrdinal, "99", int64(1), int64(1))
	f.Add(scaledjobv1.LabelManagedBy, "", scaledjobv1.AnnotationTemplateHash, "\xff", int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, label, value, annotation, note string, ordinal, generation int64) {
		g := NewWithT(t)
		sj := owner()
		sj.Generation = generation
		template := sj.Spec.JobTemplate
		template.Labels[label], template.Annotations[annotation] = value, note
		template.Spec.Template.Labels[label] = value
		before := sj.DeepCopy()

		job := Build(sj, "hash", ordinal, ordinal-1)

		g.Expect(sj).To(Equal(before), "the owner is unchanged")
		g.Expect(job.Name).To(Equal(Name(sj.Name, sj.UID, ordinal)))
		g.Expect(ControllerUID(job)).To(Equal(sj.UID))
		g.Expect(job.OwnerReferences).To(HaveLen(1))
		g.Expect(job.Finalizers).To(BeEmpty())
		own, _ := Ordinal(&job.ObjectMeta)
		if ordinal < 0 || ordinal > maxOrdinal {
			ordinal = 0
		}
		g.Expect(own).To(Equal(ordinal))
		g.Expect(HasTemplate(job, "hash")).To(BeTrue())
		for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
			g.Expect(labels).To(HaveKeyWithValue(scaledjobv1.LabelScaledJob, sj.Name))
			g.Expect(labels).To(HaveKey(scaledjobv1.LabelManagedBy))
		}
		maps.DeleteFunc(job.Labels, func(key, value string) bool { return template.Labels[key] == value })
		g.Expect(len(job.Labels)).To(BeNumerically("<=", 2), "all other labels are from the template")
	})
}
