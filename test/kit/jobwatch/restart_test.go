// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobwatch

import (
	"context"
	"fmt"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestAWatchOutlivesTheAPIServer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	control := cluster.New(t, cluster.Options{Log: os.Stderr})
	object := &scaledjobv1.ScaledJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "emails", UID: owner}}
	const restarts = 2
	ctx, cancel := context.WithTimeout(t.Context(), syncTimeout)
	defer cancel()
	w := must.Get(Start(t.Context(), control.Config(), object, func() int { return restarts }))(g)
	for i := range restarts {
		// A change of something else, from before which an API server that has been
		// restarted cannot tell what happened to Jobs.
		must.Get(control.CreateNamespace(ctx, "other"))(g)
		g.Expect(control.RestartAPIServer(ctx)).To(Succeed())
		g.Expect(w.createOwned(ctx, fmt.Sprint("job-", i))).To(Succeed())
		g.Expect(w.AwaitCreated(ctx, i+1)).To(Succeed())
		g.Expect(w.Sync(ctx)).To(Succeed())
		g.Expect(w.Violation()).To(BeEmpty())
	}
	g.Expect(w.createOwned(ctx, "one-more")).To(Succeed())
	g.Expect(w.Sync(ctx)).To(Succeed())
	g.Expect(w.Violation()).To(ContainSubstring("3 unfinished ones, where 2 were due"))
}

// createOwned creates a Job that the owner controls.
func (w *Watch) createOwned(ctx context.Context, name string) error {
	made := job(name)
	made.ObjectMeta = metav1.ObjectMeta{Name: name, OwnerReferences: made.OwnerReferences}
	made.OwnerReferences[0].APIVersion, made.OwnerReferences[0].Kind, made.OwnerReferences[0].Name = "v1", "ScaledJob", "emails"
	made.Spec = IdleJob().Spec
	_, err := w.jobs.Create(ctx, made, metav1.CreateOptions{})
	return err
}
