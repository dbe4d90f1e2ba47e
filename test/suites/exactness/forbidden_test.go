// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"context"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/witness"
)

// countedJobs is what a quota calls the number of Jobs.
const countedJobs corev1.ResourceName = "count/jobs.batch"

const (
	// room is how many Jobs the quota allows.
	room = 5
	// fewCreates are those that make these Jobs, and one batch that is refused.
	fewCreates = room + createsAtOnce
)

// A quota has room for half of the Jobs. A thousand events per second must not
// make as many creates that are refused.
func TestQuota(t *testing.T) {
	t.Parallel()
	const due = 10
	g := NewWithT(t)
	namespace, proxy := newNamespace(t), startProxy(t)
	creates := proxy.countCreates()
	operator := startOperator(t, proxy, []string{namespace})
	setQuota(t, namespace, room)
	s := newScaledJob(t, namespace, "limited", 1, due)
	s.awaitSubscription(t)
	proxy.lag(shortLag)

	g.Expect(s.storm(t.Context())).To(Succeed())
	g.Eventually(s.conditions).WithArguments(t.Context()).WithTimeout(timeout).
		Should(HaveKeyWithValue(scaledjobv1.ConditionScalingLimited, scaledjobv1.ReasonCreateRefused))
	g.Expect(s.Witness.AwaitCreated(t.Context(), room)).To(Succeed())
	g.Expect(creates.Hits()).To(And(BeNumerically(">", room), BeNumerically("<=", fewCreates)), "creates in the storm")
	g.Expect(s.Witness.Created()).To(Equal(room))

	setQuota(t, namespace, 10*due)
	s.suspend(t, true) // which ends the pause
	g.Eventually(s.conditions).WithArguments(t.Context()).WithTimeout(timeout).
		Should(HaveKeyWithValue(scaledjobv1.ConditionReady, scaledjobv1.ReasonSuspended))
	s.suspend(t, false)
	prove(t, operator, witness.Row{
		Fault:   "a quota refuses half of the Jobs in a storm, then is raised",
		Promise: "what is refused is tried seldom, and comes when it may",
	}, claim{scaledJob: s, jobs: due})
}

// While a namespace terminates, its Jobs go, and the operator sees nothing of the
// deletion of the ScaledJob.
func TestNamespaceTerminates(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	doomedNamespace, err := control.CreateNamespace(t.Context(), "doomed")
	g.Expect(err).NotTo(HaveOccurred())
	namespace, proxy := newNamespace(t), startProxy(t)
	operator := startOperator(t, proxy, []string{namespace, doomedNamespace})
	doomed := newSaturatedScaledJob(t, doomedNamespace, "doomed", operator)
	healthy := newScaledJob(t, namespace, "healthy", 40, 100)
	healthy.awaitSubscription(t)
	release := hold(t, doomedNamespace)
	proxy.scaledJobs.Set(frozen)

	storms := beginStorms(t.Context(), doomed, healthy)
	terminating := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: doomedNamespace}}
	g.Expect(api.Delete(t.Context(), terminating)).To(Succeed())
	g.Eventually(doomed.Witness.Unfinished).WithTimeout(timeout).Should(BeEmpty())
	g.Expect(storms.Wait()).To(Succeed())
	prove(t, operator, witness.Row{
		Fault:   "a namespace terminates in a storm, and watches of ScaledJobs do not show it",
		Promise: "nothing is created there, and the others go on",
	}, claim{scaledJob: healthy, jobs: stormPushes / 40})
	g.Expect(doomed.Witness.Created()).To(Equal(saturation))

	proxy.scaledJobs.Set(0)
	release()
	g.Eventually(api.Get).WithArguments(t.Context(), client.ObjectKeyFromObject(terminating), terminating).WithTimeout(timeout).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	g.Eventually(doomed.reconciles).WithArguments(t.Context(), operator).WithTimeout(timeout).Should(BeZero())
	g.Expect(doomed.Witness.Created()).To(Equal(saturation))
}

// setQuota limits how many Jobs a namespace may hold, and returns once the limit
// is in force.
func setQuota(t *testing.T, namespace string, jobs int) {
	t.Helper()
	g := NewWithT(t)
	limit := resource.MustParse(strconv.Itoa(jobs))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "jobs"}}
	_, err := controllerutil.CreateOrUpdate(t.Context(), api, quota, func() error {
		quota.Spec.Hard = corev1.ResourceList{countedJobs: limit}
		return nil
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func(g Gomega) {
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(quota), quota)).To(Succeed())
		g.Expect(quota.Status.Hard[countedJobs]).To(Equal(limit))
	}).WithTimeout(timeout).Should(Succeed())
}

// hold keeps a namespace from going until the returned function is called, which
// is at the end of the test at the latest.
func hold(t *testing.T, namespace string) (release func()) {
	t.Helper()
	g := NewWithT(t)
	keeper := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "keeper", Finalizers: []string{"test.batch.miracle.dev/keep"},
	}}
	g.Expect(api.Create(t.Context(), keeper)).To(Succeed())
	release = func() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		g.Expect(client.IgnoreNotFound(api.Patch(context.WithoutCancel(t.Context()), keeper, patch))).To(Succeed())
	}
	t.Cleanup(release)
	return release
}

// suspend stops the ScaledJob, or lets it go on.
func (s *scaledJob) suspend(t *testing.T, suspended bool) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":`+strconv.FormatBool(suspended)+`}}`))
	NewWithT(t).Expect(api.Patch(t.Context(), s.Object.DeepCopy(), patch)).To(Succeed())
}

// conditions are the reasons of the ScaledJob's conditions, by their types.
func (s *scaledJob) conditions(ctx context.Context) (map[string]string, error) {
	var now scaledjobv1.ScaledJob
	err := api.Get(ctx, client.ObjectKeyFromObject(s.Object), &now)
	reasons := map[string]string{}
	for _, condition := range now.Status.Conditions {
		reasons[condition.Type] = condition.Reason
	}
	return reasons, err
}
