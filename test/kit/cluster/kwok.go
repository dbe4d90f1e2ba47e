// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	_ "embed" // the manifests
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster/binaries"
)

// Annotations of a Pod, thus of the Pod template of a Job, that say what KWOK
// makes of it. The values are durations as in "1.5s". Each can also be set on a
// Pod that is there: "0s" makes it happen now.
//
// A Pod needs none of them: it gets the node FakeNode and is ready at once, and
// runs until it is deleted. To keep one pending, give it another schedulerName
// than the default one, or scheduling gates.
const (
	// PodReadyAfter is the time from creation until the Pod runs and is ready.
	PodReadyAfter = "cluster.test/ready-after"
	// PodSucceedAfter is the time from then until it succeeds.
	PodSucceedAfter = "cluster.test/succeed-after"
	// PodFailAfter is the time from then until it fails. It wins over
	// PodSucceedAfter.
	PodFailAfter = "cluster.test/fail-after"
	// PodTerminateAfter is the time from its deletion until it is gone.
	PodTerminateAfter = "cluster.test/terminate-after"
)

// FakeNode is the name of the node KWOK plays.
const FakeNode = "fake-node"

// policyVersion is the version in the manifests, and policyArguments let older API servers have the kind: before
// Kubernetes 1.36 it is in beta, before 1.34 in alpha, and both are off.
var (
	policyVersion   = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	policyArguments = []string{
		"--feature-gates=MutatingAdmissionPolicy=true",
		"--runtime-config=admissionregistration.k8s.io/v1beta1=true,admissionregistration.k8s.io/v1alpha1=true",
	}
)

//go:embed manifests/kwok.yaml
var kwokConfiguration []byte

//go:embed manifests/node.yaml
var nodeManifests []byte

// startKWOK makes the fake node, starts KWOK to play it, and waits until Pods
// are placed on it.
func (c *Cluster) startKWOK(ctx context.Context) error {
	if err := c.makeNode(ctx); err != nil {
		return fmt.Errorf("making the fake node: %w", err)
	}
	configuration := filepath.Join(c.sandbox.Dir(), "kwok.yaml")
	if err := os.WriteFile(configuration, kwokConfiguration, 0o600); err != nil {
		return err
	}
	process, err := c.sandbox.Start("kwok", c.paths[binaries.KWOK],
		"--kubeconfig="+c.Kubeconfig(),
		"--config="+configuration,
		"--manage-all-nodes",
		// No lease: no controller here takes a silent node for a dead one.
		"--node-lease-duration-seconds=0")
	if err != nil {
		return err
	}
	return process.WaitReady(ctx, func(ctx context.Context) error {
		return errors.Join(c.nodeIsReady(ctx), c.podsArePlaced(ctx))
	})
}

// makeNode applies the manifests with the newest version of the policy that the
// API server has.
func (c *Cluster) makeNode(ctx context.Context) error {
	kind := schema.GroupKind{Group: policyVersion.Group, Kind: "MutatingAdmissionPolicy"}
	served, err := c.client.RESTMapper().RESTMapping(kind)
	if err != nil {
		return err
	}
	version := served.GroupVersionKind.GroupVersion().String()
	manifests := bytes.ReplaceAll(nodeManifests, []byte(policyVersion.String()), []byte(version))
	return c.Apply(ctx, bytes.NewReader(manifests))
}

func (c *Cluster) nodeIsReady(ctx context.Context) error {
	var node corev1.Node
	if err := c.client.Get(ctx, client.ObjectKey{Name: FakeNode}, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready", FakeNode)
}

// podsArePlaced asks what would become of a Pod, since the API server takes a
// moment to act on a new admission policy.
func (c *Cluster) podsArePlaced(ctx context.Context) error {
	token := false
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "placed-"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &token,
			Containers:                   []corev1.Container{{Name: "none", Image: "none"}},
		},
	}
	if err := c.client.Create(ctx, &pod, client.DryRunAll); err != nil {
		return err
	}
	if pod.Spec.NodeName != FakeNode {
		return fmt.Errorf("pods are not placed on %s", FakeNode)
	}
	return nil
}
