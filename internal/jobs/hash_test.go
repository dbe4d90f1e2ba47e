// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// manifest is a template with every field of Jobs below which earlier versions of the CRD had a default.
const manifest = `
spec:
  template:
    spec:
      initContainers: [{name: i, ports: [{containerPort: 1}], startupProbe: {grpc: {port: 1}}}]
      containers:
      - name: c
        ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}]
        env:
        - {name: file, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}
        - {name: secret, valueFrom: {secretKeyRef: {key: k}}}
        - {name: plain, value: v}
        livenessProbe: {grpc: {port: 2}}
        readinessProbe: {tcpSocket: {port: 2}}
      imagePullSecrets: [{}]
      volumes:
      - {name: azure, azureDisk: {diskName: d, diskURI: u}}
      - {name: iscsi, iscsi: {targetPortal: p, iqn: q, lun: 0}}
      - {name: rbd, rbd: {monitors: [m], image: i}}
      - {name: scaleio, scaleIO: {gateway: g, system: s, secretRef: {}}}
      - {name: empty, emptyDir: {}}
`

// stored is the same template as the API server stored it with these versions.
const stored = `
spec:
  template:
    spec:
      initContainers: [{name: i, ports: [{containerPort: 1, protocol: TCP}], startupProbe: {grpc: {port: 1, service: ""}}}]
      containers:
      - name: c
        ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]
        env:
        - {name: file, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k, optional: false}}}
        - {name: secret, valueFrom: {secretKeyRef: {key: k, name: ""}}}
        - {name: plain, value: v}
        livenessProbe: {grpc: {port: 2, service: ""}}
        readinessProbe: {tcpSocket: {port: 2}}
      imagePullSecrets: [{name: ""}]
      volumes:
      - {name: azure, azureDisk: {diskName: d, diskURI: u, fsType: ext4, readOnly: false}}
      - {name: iscsi, iscsi: {targetPortal: p, iqn: q, lun: 0, iscsiInterface: default}}
      - {name: rbd, rbd: {monitors: [m], image: i, pool: rbd, user: admin, keyring: /etc/ceph/keyring}}
      - {name: scaleio, scaleIO: {gateway: g, system: s, secretRef: {name: ""}, storageMode: ThinProvisioned, fsType: xfs}}
      - {name: empty, emptyDir: {}}
`

func template(g Gomega, text string) *batchv1.JobTemplateSpec {
	parsed := &batchv1.JobTemplateSpec{}
	g.Expect(yaml.UnmarshalStrict([]byte(text), parsed)).To(Succeed())
	return parsed
}

// Otherwise an upgrade of the CRD, followed by an apply of unchanged manifests, would replace running Jobs where the
// rollout strategy is Immediate.
func TestDefaultsThatTheCRDNoLongerStoresAreNoEdit(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	before, after := template(g, stored), template(g, manifest)
	encoded, err := json.Marshal(before)
	g.Expect(err).NotTo(HaveOccurred())
	earlier := fnv.New64a()
	_, _ = earlier.Write(append(encoded, '\n'))
	g.Expect(TemplateHash(before)).To(Equal(strconv.FormatUint(earlier.Sum64(), 36)), "Jobs carry the hash that earlier versions computed")
	g.Expect(TemplateHash(after)).To(Equal(TemplateHash(before)))
	g.Expect(after).To(Equal(template(g, manifest)), "the template stays as it is")

	after.Spec.Template.Spec.Containers[0].Ports[0].Protocol = "UDP"
	g.Expect(TemplateHash(after)).NotTo(Equal(TemplateHash(before)))
}
