// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/manifests"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

const shipped = `
apiVersion: v1
kind: ConfigMap
metadata: {name: kueue-manager-config}
data:
  controller_manager_config.yaml: |
    clientConnection: {qps: 300}
    leaderElection: {leaderElect: true}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kueue-controller-manager}
---
apiVersion: v1
kind: Service
metadata: {name: kueue-visibility-server}
---
apiVersion: v1
kind: Service
metadata: {name: kueue-webhook-service}
spec: {ports: [{port: 443}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: unconverted}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: converted}
spec: {conversion: {webhook: {clientConfig: {service: {path: /convert}}}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: webhooks}
webhooks:
- {name: own, clientConfig: {service: {path: /own}}}
- {name: jobs, clientConfig: {service: {path: /jobs}}, namespaceSelector: {matchExpressions: [{key: name}]}}
`

func TestManifestsForAKueueOutsideTheCluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	result := must.Get(local{port: 12345, probes: "127.0.0.1:2", certificates: "/certificates"}.adapt([]byte(shipped)))(g)
	g.Expect(must.Get(manifests.Parse(result.objects.String()))(g)).To(Equal(must.Get(manifests.Parse(`
apiVersion: v1
kind: Service
metadata: {name: kueue-webhook-service}
spec: {type: ExternalName, externalName: 127.0.0.1}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: unconverted}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: converted}
spec: {conversion: {webhook: {clientConfig: {service: {path: /convert, port: 12345}}}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: webhooks}
webhooks:
- {name: own, clientConfig: {service: {path: /own, port: 12345}}}
- name: jobs
  clientConfig: {service: {path: /jobs, port: 12345}}
  namespaceSelector: {matchExpressions: [{key: name}, {key: kueue.test/excluded, operator: DoesNotExist}]}
`))(g)))
	g.Expect(string(result.configuration)).To(And(
		ContainSubstring("qps: 300"), ContainSubstring("leaderElect: false"), ContainSubstring("port: 12345"),
		ContainSubstring("certDir: /certificates"), ContainSubstring("healthProbeBindAddress: 127.0.0.1:2"),
	))
}
