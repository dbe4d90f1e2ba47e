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
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/examples"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

const (
	manifest    = root + "/config/crd/bases/batch.miracle.dev_scaledjobs.yaml"
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	// argoCD is the name that Argo CD applies objects with.
	argoCD = "argocd-controller"

	queues    = "spec.properties.queues.items.properties."
	container = "spec.properties.jobTemplate.properties.spec.properties.template.properties.spec.properties.containers.items.properties."
	queueType = queues + "type=List"
	protocol  = container + "ports.items.properties.protocol=TCP"
)

// earlierPorts is the schema of ports in an earlier CRD, in which they had keys.
const earlierPorts = `
type: array
x-kubernetes-list-type: map
x-kubernetes-list-map-keys: [containerPort, protocol]
items:
  type: object
  required: [containerPort]
  properties: {containerPort: {type: integer}, protocol: {type: string}}
`

// all has what no sample has: everything in the items of lists that has a default, what tools write, and the same key
// twice.
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
    metadata: {creationTimestamp: null}
    spec:
      template:
        metadata: {creationTimestamp: null, generateName: worker-}
        spec:
          nodeSelector: null
          hostAliases: [{ip: 127.0.0.1, hostnames: [a]}, {ip: 127.0.0.1, hostnames: [b]}]
          initContainers:
          - {name: init, image: "worker:1", ports: [{containerPort: 1}]}
          containers:
          - name: worker
            image: worker:1
            ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}]
            envFrom: [{configMapRef: {name: c}}]
            env: [{name: file, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}, {name: a, value: b}, {name: a, value: c}]
            args: null
            livenessProbe: {grpc: {port: 1}}
            resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: 0.5}}
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
	found := must.Get(examples.Samples(root))(g)
	g.Expect(len(found)).To(BeNumerically(">", 8))
	for _, document := range examples.Documents {
		objects := must.Get(examples.OfDocument(root, document))(g)
		found = append(found, objects...)
	}
	return append(found, everything(t, "batch.miracle.dev"))
}

// everything is the ScaledJob above in this group.
func everything(t *testing.T, group string) *unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	every := &unstructured.Unstructured{}
	encoded := must.Get(yaml.YAMLToJSON([]byte(all)))(g)
	g.Expect(every.UnmarshalJSON(encoded)).To(Succeed())
	every.SetAPIVersion(group + "/v1")
	return every
}

// applied applies the manifests, each in both ways that GitOps tools apply, and returns them with what is in the
// cluster then.
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
	object.SetAnnotations(labels.Merge(object.GetAnnotations(), map[string]string{lastApplied: string(encoded)}))
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

// A CRD that sets defaults in the items of lists makes a difference for ever, where Argo CD applies server-side.
func TestDefaultsInListItemsAreDifferences(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"type": queueType, "window": queues + "sortedSet.properties.window=All", "unit": queues + "sortedSet.properties.scoreUnit=s",
		"protocol": protocol,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "type" {
				skip.UnderShort(t, "each row finds what the first finds, in another field")
			}
			g := NewWithT(t)
			group := name + ".miracle.dev"
			install(t, group, path)
			pairs := applied(t, []*unstructured.Unstructured{everything(t, group)})
			for _, found := range differences(t, pairs) {
				g.Expect(found).To(HaveKey("server-side apply"))
			}
		})
	}
}

// Objects that were stored with an earlier CRD, which had defaults in the items of lists, can be applied with the CRD
// of today, and do not differ any more then.
func TestObjectsOfAnEarlierCRDCanBeApplied(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const group = "earlier.miracle.dev"
	install(t, group, queueType, protocol)
	pairs := applied(t, []*unstructured.Unstructured{everything(t, group)})
	g.Expect(pairs[1].Live.Object["spec"].(map[string]any)["queues"].([]any)[0]).To(HaveKeyWithValue("type", "List"))
	install(t, group)
	g.Eventually(func() error { return serverSide(t, pairs[1].Manifest.DeepCopy()) }).Should(Succeed())
	g.Eventually(func() map[string]string {
		g.Expect(serverSide(t, pairs[1].Manifest.DeepCopy())).To(Succeed())
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(pairs[1].Live), pairs[1].Live)).To(Succeed())
		return differences(t, pairs[1:])[0]
	}).Should(BeEmpty())
}

// install installs the CRD in another group, with defaults of fields, each written path=default.
func install(t *testing.T, group string, defaults ...string) {
	t.Helper()
	g := NewWithT(t)
	content := must.Get(os.ReadFile(manifest))(g)
	crd := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal(content, &crd.Object)).To(Succeed())
	crd.SetName("scaledjobs." + group)
	spec := crd.Object["spec"].(map[string]any)
	spec["group"] = group
	names := spec["names"].(map[string]any)
	delete(names, "shortNames")
	delete(names, "categories")
	schema := spec["versions"].([]any)[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	for _, each := range defaults {
		path, value, _ := strings.Cut("properties."+each, "=")
		at := schema
		for step := range strings.SplitSeq(path, ".") {
			at = at[step].(map[string]any)
			if step == "ports" {
				clear(at)
				g.Expect(yaml.Unmarshal([]byte(earlierPorts), &at)).To(Succeed())
			}
		}
		at["default"] = value
	}
	encoded := must.Get(yaml.Marshal(crd.Object))(g)
	g.Expect(control.Apply(t.Context(), bytes.NewReader(encoded))).To(Succeed())
}
