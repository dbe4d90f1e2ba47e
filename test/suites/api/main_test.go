// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package api tests the CustomResourceDefinition on a real API server: what it accepts, what it refuses and in which words, and that
// nothing of what it stores gets lost or harms a client.
package api

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
)

// manifest is the CRD as it is generated.
const manifest = "../../../config/crd/bases/batch.miracle.dev_scaledjobs.yaml"

var control *cluster.Cluster

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(cluster.RunTests(m, cluster.Options{CRDs: []string{manifest}}, &control))
}

// newClient is a client of the administrator, who asks for strict decoding as kubectl does.
func newClient(g Gomega) client.Client {
	scheme := runtime.NewScheme()
	g.Expect(errors.Join(
		scaledjobv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), autoscalingv1.AddToScheme(scheme),
	)).To(Succeed())
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

// value is what stands under a path. No content means that nothing does.
type value struct {
	path    []string
	content any
}

// try asks the API server to create the object, without having it stored.
func try(ctx context.Context, api client.Client, object client.Object) error {
	return api.Create(ctx, object, client.DryRunAll)
}
