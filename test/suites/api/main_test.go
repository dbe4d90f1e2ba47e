// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package api tests, on a real API server, what the API server accepts and who may do what; no operator runs.
//
// The CustomResourceDefinition is tested by what it accepts, refuses, defaults and stores, and config/rbac by what the
// operator's ServiceAccount and users may do with it.
package api

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
)

// manifest is the generated CRD.
const manifest = "../../../config/crd/bases/batch.miracle.dev_scaledjobs.yaml"

var control *cluster.Cluster

func TestMain(m *testing.M) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	os.Exit(cluster.Run(m, 0, start, stop))
}

func start(ctx context.Context) (err error) {
	// The controller-manager aggregates roles.
	control, _, err = operator.StartCluster(ctx, cluster.Options{ControllerManager: true, Log: os.Stderr})
	return err
}

func stop(context.Context) error {
	if control == nil {
		return nil
	}
	return control.Stop()
}

// newClient returns a client of the administrator with strict decoding, as kubectl asks for.
func newClient(g Gomega) client.Client {
	scheme := runtime.NewScheme()
	g.Expect(errors.Join(scaledjobv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme))).To(Succeed())
	api, err := client.New(control.Config(), client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return client.WithFieldValidation(api, "Strict")
}

// valid is a small ScaledJob that is accepted.
const valid = `
apiVersion: batch.miracle.dev/v1
kind: ScaledJob
metadata:
  namespace: default
  name: emails
spec:
  queueName: emails
  redisAddress: redis:6379
  threshold: 10
  jobTemplate:
    spec:
      template:
        spec:
          containers:
          - name: worker
            image: worker:1
`

// object is the valid ScaledJob with these values set, each under its path.
func object(g Gomega, values ...value) *unstructured.Unstructured {
	encoded, err := yaml.YAMLToJSON([]byte(valid))
	g.Expect(err).NotTo(HaveOccurred())
	parsed := &unstructured.Unstructured{}
	g.Expect(parsed.UnmarshalJSON(encoded)).To(Succeed())
	for _, value := range values {
		if value.content == nil {
			unstructured.RemoveNestedField(parsed.Object, value.path...)
			continue
		}
		g.Expect(unstructured.SetNestedField(parsed.Object, value.content, value.path...)).To(Succeed())
	}
	return parsed
}

// typed is the object as a client of the Go types sends it.
func typed(g Gomega, object *unstructured.Unstructured) *scaledjobv1.ScaledJob {
	converted := &scaledjobv1.ScaledJob{}
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, converted)).To(Succeed())
	return converted
}

// value is what stands under a path. No content means that nothing does.
type value struct {
	path    []string
	content any
}

// try asks the API server to create the object, without having it stored.
func try(ctx context.Context, api client.Client, object client.Object) error {
	return api.Create(ctx, object, client.DryRunAll)
}
