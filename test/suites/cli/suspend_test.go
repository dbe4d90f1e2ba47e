// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := control.NewNamespace(t, "cli")
	emails := newScaledJob(t, namespace, "emails", "{}", healthy)
	images := newScaledJob(t, namespace, "images", "{}", healthy)
	const prefix = "scaledjob.batch.miracle.dev/"

	g.Expect(run(t, "suspend", "emails", "-n", namespace)).To(Equal(answer{out: prefix + "emails suspended\n"}))
	g.Expect(isSuspended(t, emails)).To(BeTrue())
	g.Expect(isSuspended(t, images)).To(BeFalse())
	g.Expect(run(t, "suspend", "--all", "-n", namespace)).
		To(Equal(answer{out: prefix + "emails suspended (unchanged)\n" + prefix + "images suspended\n"}))
	g.Expect(run(t, "resume", "-l", "team=images", "-n", namespace)).To(Equal(answer{out: prefix + "images resumed\n"}))
	g.Expect(isSuspended(t, emails)).To(BeTrue())
	g.Expect(isSuspended(t, images)).To(BeFalse())
	g.Expect(run(t, "resume", "emails", "images", "-n", namespace)).
		To(Equal(answer{out: prefix + "emails resumed\n" + prefix + "images resumed (unchanged)\n"}))

	is := run(t, "suspend", "-l", "team=nobody", "-n", namespace)
	g.Expect(is).To(Equal(answer{errOut: `error: There are no ScaledJobs with these labels in namespace "` + namespace + `".` + "\n", code: 1}))
}

func TestOnlyWhoMayEditSuspends(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := control.NewNamespace(t, "cli")
	emails := newScaledJob(t, namespace, "emails", "{}", healthy)
	newScaledJob(t, namespace, "images", "{}", healthy)
	viewer, editor := newUser(t, namespace, "view"), newUser(t, namespace, "edit")
	// Roles are aggregated some moments after the start of the cluster.
	g.Eventually(func() int { return run(t, "status", "-n", namespace, viewer).code }).Should(BeZero())
	is := run(t, "suspend", "emails", "-n", namespace, viewer)
	g.Expect(is.code).To(Equal(1))
	g.Expect(is.errOut).To(MatchRegexp(`^error: scaledjobs\.batch\.miracle\.dev "emails" is forbidden: .*\n$`))
	is = run(t, "suspend", "--all", "-n", namespace, viewer)
	g.Expect(is.code).To(Equal(1))
	g.Expect(is.errOut).To(HaveSuffix("error: 2 of 2 ScaledJobs could not be changed.\n"))
	g.Expect(isSuspended(t, emails)).To(BeFalse())

	g.Eventually(func() answer { return run(t, "suspend", "emails", "-n", namespace, editor) }).
		Should(Equal(answer{out: "scaledjob.batch.miracle.dev/emails suspended\n"}))
}

func isSuspended(t *testing.T, sj *scaledjobv1.ScaledJob) bool {
	t.Helper()
	var is scaledjobv1.ScaledJob
	NewWithT(t).Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(sj), &is)).To(Succeed())
	return is.Spec.Suspend
}
