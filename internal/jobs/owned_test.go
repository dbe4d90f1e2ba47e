// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"fmt"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// change modifies a Job.
type change func(*batchv1.Job)

// job returns a changed active Job of the owner "uid-1".
func job(name string, changes ...change) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		UID:  types.UID(name),
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "batch.miracle.dev/v1", Kind: "ScaledJob", Name: "emails", UID: "uid-1", Controller: new(true)},
		},
	}}
	for _, change := range changes {
		change(job)
	}
	return job
}

// with adds a condition with its transition time, in seconds.
func with(kind batchv1.JobConditionType, status corev1.ConditionStatus, second int64) change {
	return func(job *batchv1.Job) {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: status, LastTransitionTime: metav1.NewTime(time.Unix(second, 0)),
		})
	}
}

func succeeded(second int64) change { return with(batchv1.JobComplete, corev1.ConditionTrue, second) }

func failed(second int64) change { return with(batchv1.JobFailed, corev1.ConditionTrue, second) }

func terminating(job *batchv1.Job) { job.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func readyPods(n int32) change { return func(job *batchv1.Job) { job.Status.Ready = &n } }

func annotated(key, value string) change {
	return func(job *batchv1.Job) { metav1.SetMetaDataAnnotation(&job.ObjectMeta, key, value) }
}

func numbered(ordinal string) change { return annotated(scaledjobv1.AnnotationOrdinal, ordinal) }

func names(jobs []*batchv1.Job) []string {
	result := []string{}
	for _, job := range jobs {
		result = append(result, job.Name)
	}
	return result
}

func TestTake(t *testing.T) {
	const active, complete, broken, nobodys = "active", "succeeded", "failed", "none of ours"
	orphaned := func(job *batchv1.Job) { job.OwnerReferences = nil }
	labelled := func(job *batchv1.Job) { job.Labels = map[string]string{scaledjobv1.LabelScaledJob: "emails"} }
	ownedBy := func(uid types.UID) change { return func(job *batchv1.Job) { job.OwnerReferences[0].UID = uid } }
	notController := func(job *batchv1.Job) { job.OwnerReferences[0].Controller = nil }
	suspended := func(job *batchv1.Job) { job.Spec.Suspend = new(true) }

	type row struct {
		job  *batchv1.Job
		want string
	}
	bubble.Each(t, map[string]row{
		"just created":                   {job("j"), active},
		"running":                        {job("j", readyPods(1)), active},
		"suspended":                      {job("j", suspended, with(batchv1.JobSuspended, corev1.ConditionTrue, 1)), active},
		"resumed":                        {job("j", with(batchv1.JobSuspended, corev1.ConditionFalse, 1)), active},
		"being deleted":                  {job("j", terminating), active},
		"succeeded":                      {job("j", succeeded(1)), complete},
		"succeeded, being deleted":       {job("j", succeeded(1), terminating), complete},
		"succeeded after suspension":     {job("j", with(batchv1.JobSuspended, corev1.ConditionFalse, 1), succeeded(2)), complete},
		"failed":                         {job("j", failed(1)), broken},
		"going to succeed, Pods running": {job("j", with(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, 1)), active},
		"going to fail, Pods running":    {job("j", with(batchv1.JobFailureTarget, corev1.ConditionTrue, 1)), active},
		"success criteria met, then succeeded": {
			job("j", with(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, 1), succeeded(2)), complete,
		},
		"failure target, then failed": {job("j", with(batchv1.JobFailureTarget, corev1.ConditionTrue, 1), failed(2)), broken},
		"conditions that are False": {
			job("j", with(batchv1.JobComplete, corev1.ConditionFalse, 1), with(batchv1.JobFailed, corev1.ConditionFalse, 1)), active,
		},
		"conditions that are Unknown":  {job("j", with(batchv1.JobComplete, corev1.ConditionUnknown, 1)), active},
		"of another owner":             {job("j", ownedBy("uid-2")), nobodys},
		"without an owner":             {job("j", orphaned), nobodys},
		"labelled, without an owner":   {job("j", orphaned, labelled), nobodys},
		"owned without being governed": {job("j", notController), nobodys},
	}, func(_ *testing.T, g Gomega, c row) {
		owned := Classify([]*batchv1.Job{c.job}, "uid-1")

		found := map[string]int{
			active: len(owned.Active), complete: len(owned.Succeeded), broken: len(owned.Failed),
		}
		want := map[string]int{active: 0, complete: 0, broken: 0}
		if c.want != nobodys {
			want[c.want] = 1
		}
		g.Expect(found).To(Equal(want))
		g.Expect(Finished(c.job)).To(Equal(c.want == complete || c.want == broken))
	})
}

func TestPending(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owned := Classify([]*batchv1.Job{
		job("not reported yet"), job("none ready", readyPods(0)), job("ready", readyPods(1)), job("both ready", readyPods(2)),
		job("finished", succeeded(1)), job("failed", failed(1)),
	}, "uid-1")

	g.Expect(owned.Pending()).To(Equal(2))
}

func TestOrdinal(t *testing.T) {
	named := func(ordinal int64) string { return Name("emails", "uid-1", ordinal) }
	type row struct {
		job  *batchv1.Job
		want int64
	}
	bubble.Each(t, map[string]row{
		"its own":                    {job(named(7), numbered("7")), 7},
		"of a finished one":          {job(named(7), numbered("7"), failed(1)), 7},
		"the largest":                {job(named(1<<53), numbered("9007199254740992")), 1 << 53},
		"a larger one":               {job(named(1<<53+1), numbered("9007199254740993")), 0},
		"the largest number":         {job(named(math.MaxInt64), numbered("9223372036854775807")), 0},
		"a negative one":             {job(named(-1), numbered("-1")), 0},
		"none":                       {job(named(7)), 0},
		"empty":                      {job(named(0), numbered("")), 0},
		"no number":                  {job(named(7), numbered("7 ")), 0},
		"too large for 64 bits":      {job(named(7), numbered("99999999999999999999")), 0},
		"of another Job":             {job(named(7), numbered("8")), 0},
		"of the one it is a copy of": {job("copy", numbered("7")), 0},
		"of another ScaledJob":       {job(named(7), numbered("7"), func(j *batchv1.Job) { j.OwnerReferences[0].UID = "uid-2" }), 0},
		"of no ScaledJob":            {job(named(7), numbered("7"), func(j *batchv1.Job) { j.OwnerReferences = nil }), 0},
	}, func(_ *testing.T, g Gomega, c row) {
		ordinal, _ := Ordinal(&c.job.ObjectMeta)
		g.Expect(ordinal).To(Equal(c.want))
	})
}

func TestOrdinalFloor(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for floorText, want := range map[string]int64{"": 0, "no number": 0, "-1": 0, "0": 0, "6": 6, "7": 0, "9223372036854775807": 0} {
		own := job(Name("emails", "uid-1", 7), numbered("7"), annotated(scaledjobv1.AnnotationOrdinalFloor, floorText))
		ordinal, floor := Ordinal(&own.ObjectMeta)
		g.Expect([]int64{ordinal, floor}).To(Equal([]int64{7, want}), floorText)
	}
	copied := job("copy", numbered("7"), annotated(scaledjobv1.AnnotationOrdinalFloor, "6"))
	_, floor := Ordinal(&copied.ObjectMeta)
	g.Expect(floor).To(BeZero())
}

func TestHasTemplate(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owned := Classify([]*batchv1.Job{
		job("b", annotated(scaledjobv1.AnnotationTemplateHash, "running")),
		job("c", annotated(scaledjobv1.AnnotationTemplateHash, "done"), succeeded(1)),
	}, "uid-1")

	g.Expect(owned.HasTemplate("running")).To(BeTrue())
	g.Expect(owned.HasTemplate("done")).To(BeTrue())
	g.Expect(owned.HasTemplate("other")).To(BeFalse())
	g.Expect(HasTemplate(job("a"), "any")).To(BeTrue(), "without the annotation the template is unknown")
}

func TestOutdated(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	made := func(name, hash, generation string, changes ...change) *batchv1.Job {
		of := []change{annotated(scaledjobv1.AnnotationTemplateHash, hash), annotated(scaledjobv1.AnnotationGeneration, generation)}
		return job(name, append(of, changes...)...)
	}
	owned := Classify([]*batchv1.Job{
		made("earlier", "old", "1"), made("before the last edit", "old", "4"), made("the same template", "now", "1"),
		made("going", "old", "1", terminating), made("finished", "old", "1", succeeded(1)), made("failed", "old", "1", failed(1)),
		// A cache that lags shows generation 5 while a former leader has made Jobs of a later one.
		made("of a later edit", "newer", "6"),
		// No edit came between, so it is the hash that has changed: the CRD has another default, or somebody wrote it.
		made("of this generation", "forged", "5"),
		made("unknown generation", "old", ""), made("no number", "old", "x"),
		job("no annotations"), job("former scheme", annotated("batch.miracle.dev/template-hash", "old"), annotated(scaledjobv1.AnnotationGeneration, "1")),
	}, "uid-1")

	g.Expect(names(owned.Outdated("now", 5))).To(Equal([]string{"earlier", "before the last edit"}))
	g.Expect(names(owned.Outdated("now", 1))).To(BeEmpty())
}

func TestAllEndsEarly(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	owned := Classify([]*batchv1.Job{job("a"), job("b", succeeded(1)), job("c", failed(1))}, "uid-1")

	var seen []string
	for job := range owned.All {
		seen = append(seen, job.Name)
		if len(seen) == 2 {
			break
		}
	}
	g.Expect(seen).To(Equal([]string{"a", "b"}))
}

func BenchmarkBuild(b *testing.B) {
	owner := owner()
	b.ReportAllocs()
	for b.Loop() {
		Build(owner, "hash", 1000, 998)
	}
}

// BenchmarkCount measures the count of 10,000 Jobs of a ScaledJob, of which every tenth is unfinished.
func BenchmarkCount(b *testing.B) {
	all := make([]*batchv1.Job, 10_000)
	for i := range all {
		all[i] = Build(owner(), "hash", int64(i), 0)
		all[i].UID = types.UID(fmt.Sprint("job-", i))
		all[i].OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner(), batchv1.SchemeGroupVersion.WithKind("ScaledJob"))}
		if i%10 > 0 {
			all[i].Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
	}
	var tally Tally
	b.ReportAllocs()
	for b.Loop() {
		owned := Classify(all, owner().UID)
		tally.Count(&owned)
	}
}
