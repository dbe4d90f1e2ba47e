// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/examples"
)

const (
	manifest    = root + "/config/crd/bases/batch.miracle.dev_scaledjobs.yaml"
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	// argoCD is the name that Argo CD applies objects with.
	argoCD = "argocd-controller"
)

// all has what no sample has: everything in the items of lists that has a default.
const all = `
apiVersion: batch.miracle.dev/v1
kind: ScaledJob
metadata: {name: all}
spec:
  queues:
  - name: list
  - {name: busy, role: InProgress}
  - {name: stream, type: Stream, stream: {consumerGroup: workers}}
  - {name: sorted, type: SortedSet, sortedSet: {}}
  - {name: due, type: SortedSet, sortedSet: {window: Due}}
  - {name: threshold, type: Set, threshold: 2}
  redis: {addresses: ["redis:6379"]}
  threshold: 1
  jobTemplate:
    spec:
      template:
        spec:
          initContainers:
          - {name: init, image: "worker:1", ports: [{containerPort: 1}]}
          containers:
          - name: worker
            image: worker:1
            ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}]
            envFrom: [{configMapRef: {name: c}}]
            env: [{name: file, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]
            livenessProbe: {grpc: {port: 1}}
            resources: {limits: {cpu: 1000m, memory: 1024Mi}}
          imagePullSecrets: [{name: registry}]
          volumes:
          - {name: azure, azureDisk: {diskName: d, diskURI: u}}
          - {name: iscsi, iscsi: {targetPortal: p, iqn: q, lun: 0}}
          - {name: rbd, rbd: {monitors: [m], image: i}}
          - {name: scaleio, scaleIO: {gateway: g, system: s, secretRef: {name: x}}}
`

// shown are all ScaledJobs that users are shown, and the one above.
func shown(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	found, err := examples.Samples(root)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(found)).To(BeNumerically(">", 8))
	for _, document := range examples.Documents {
		objects, err := examples.OfDocument(root, document)
		g.Expect(err).NotTo(HaveOccurred())
		found = append(found, objects...)
	}
	every := &unstructured.Unstructured{}
	encoded, err := yaml.YAMLToJSON([]byte(all))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(every.UnmarshalJSON(encoded)).To(Succeed())
	return append(found, every)
}

// applied applies the manifests, each in both ways that GitOps tools apply, and returns them with what is in the cluster
// then.
func applied(t *testing.T, manifests []*unstructured.Unstructured) (pairs []pair) {
	t.Helper()
	g := NewWithT(t)
	for _, apply := range []func(*testing.T, *unstructured.Unstructured) error{clientSide, serverSide} {
		namespace := control.NewNamespace(t, "gitops")
		for i, each := range manifests {
			manifest := each.DeepCopy()
			manifest.SetNamespace(namespace)
			manifest.SetName(fmt.Sprintf("%s-%d", manifest.GetName(), i))
			g.Expect(apply(t, manifest.DeepCopy())).To(Succeed())
			live := manifest.DeepCopy()
			g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(manifest), live)).To(Succeed())
			pairs = append(pairs, pair{manifest, live})
		}
	}
	return pairs
}

// clientSide creates an object as kubectl apply does.
func clientSide(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	encoded, err := json.Marshal(object)
	if err != nil {
		return err
	}
	object.SetAnnotations(map[string]string{lastApplied: string(encoded)})
	return api.Create(t.Context(), object, client.FieldOwner(argoCD))
}

// serverSide creates an object as kubectl apply --server-side does.
func serverSide(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	configuration := client.ApplyConfigurationFromUnstructured(object)
	return api.Apply(t.Context(), configuration, client.FieldOwner(argoCD), client.ForceOwnership)
}

// differences are what Argo CD would change, by the way it compares, for each of the objects.
func differences(t *testing.T, pairs []pair) (found []map[string]string) {
	t.Helper()
	g := NewWithT(t)
	// A kind is published a moment after its CRD is stored.
	g.Eventually(func() error {
		answers, err := ask(t.Context(), question{Kubeconfig: control.Kubeconfig(), Objects: pairs})
		for _, each := range answers {
			found = append(found, each.Differences)
		}
		return err
	}).Should(Succeed())
	return found
}

// Argo CD shows nothing as OutOfSync that nobody has changed.
func TestNoDifferenceFromTheManifest(t *testing.T) {
	t.Parallel()
	pairs := applied(t, shown(t))
	for i, found := range differences(t, pairs) {
		NewWithT(t).Expect(found).To(BeEmpty(), pairs[i].Manifest.GetName())
	}
}

// A change in the cluster is a difference in every way of comparing, so that the test above can fail.
func TestChangesAreDifferences(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	pairs := applied(t, shown(t)[:1])
	for i := range pairs {
		changed := pairs[i].Live
		g.Expect(unstructured.SetNestedField(changed.Object, int64(99), "spec", "threshold")).To(Succeed())
		g.Expect(api.Update(t.Context(), changed, client.FieldOwner("somebody"))).To(Succeed())
	}
	for _, found := range differences(t, pairs) {
		g.Expect(found).To(And(HaveKey("client-side"), HaveKey("server-side apply"), HaveKey("server-side diff")))
	}
}

// A CRD that sets defaults in the items of lists makes a difference for ever.
func TestDefaultsInListItemsAreDifferences(t *testing.T) {
	t.Parallel()
	const queues = "spec.properties.queues.items.properties."
	const container = "spec.properties.jobTemplate.properties.spec.properties.template.properties.spec.properties.containers.items.properties."
	for name, path := range map[string]string{
		"type": queues + "type=List", "window": queues + "sortedSet.properties.window=All",
		"unit": queues + "sortedSet.properties.scoreUnit=s", "protocol": container + "ports.items.properties.protocol=TCP",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			group := name + ".miracle.dev"
			installWithDefault(t, group, path)
			objects := shown(t)
			every := objects[len(objects)-1]
			every.SetAPIVersion(group + "/v1")
			pairs := applied(t, []*unstructured.Unstructured{every})
			g.Expect(differences(t, pairs)[0]).To(HaveKey("client-side"))
		})
	}
}

// installWithDefault installs the CRD in another group, with a default of a field, written path=default.
func installWithDefault(t *testing.T, group, field string) {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(manifest)
	g.Expect(err).NotTo(HaveOccurred())
	crd := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal(content, &crd.Object)).To(Succeed())
	crd.SetName("scaledjobs." + group)
	spec := crd.Object["spec"].(map[string]any)
	spec["group"] = group
	names := spec["names"].(map[string]any)
	delete(names, "shortNames")
	delete(names, "categories")
	schema := spec["versions"].([]any)[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	path, value, _ := strings.Cut("properties."+field, "=")
	at := schema
	for step := range strings.SplitSeq(path, ".") {
		at = at[step].(map[string]any)
	}
	at["default"] = value
	encoded, err := yaml.Marshal(crd.Object)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(control.Apply(t.Context(), bytes.NewReader(encoded))).To(Succeed())
}
