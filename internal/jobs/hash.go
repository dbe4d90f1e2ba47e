// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// TemplateHash returns a hash of a job template, in base 36. An unset field hashes like its default in Kubernetes where
// earlier versions of the CRD stored that default, such as the protocol of a port. Applying an unchanged manifest
// removes it from the stored template, which is no edit.
func TemplateHash(template *batchv1.JobTemplateSpec) string {
	hash := fnv.New64a()
	// Encoding API types cannot fail, and sorts the keys of maps.
	_ = json.NewEncoder(hash).Encode(withStoredDefaults(template))
	return strconv.FormatUint(hash.Sum64(), 36)
}

// withStoredDefaults returns the template as the API server stored it with earlier versions of the CRD, which set the
// defaults of Kubernetes in the items of lists. No Job has ephemeral containers in its template.
func withStoredDefaults(template *batchv1.JobTemplateSpec) *batchv1.JobTemplateSpec {
	filled := template.DeepCopy()
	pod := &filled.Spec.Template.Spec
	for i := range pod.InitContainers {
		fillContainer(&pod.InitContainers[i])
	}
	for i := range pod.Containers {
		fillContainer(&pod.Containers[i])
	}
	for i := range pod.Volumes {
		fillVolume(&pod.Volumes[i].VolumeSource)
	}
	return filled
}

func fillContainer(container *corev1.Container) {
	for i := range container.Ports {
		port := &container.Ports[i]
		port.Protocol = cmp.Or(port.Protocol, corev1.ProtocolTCP)
	}
	for i := range container.Env {
		if source := container.Env[i].ValueFrom; source != nil && source.FileKeyRef != nil {
			source.FileKeyRef.Optional = cmp.Or(source.FileKeyRef.Optional, new(false))
		}
	}
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe, container.StartupProbe} {
		if probe != nil && probe.GRPC != nil {
			probe.GRPC.Service = cmp.Or(probe.GRPC.Service, new(""))
		}
	}
}

func fillVolume(volume *corev1.VolumeSource) {
	if disk := volume.AzureDisk; disk != nil {
		disk.FSType = cmp.Or(disk.FSType, new("ext4"))
		disk.ReadOnly = cmp.Or(disk.ReadOnly, new(false))
	}
	if iscsi := volume.ISCSI; iscsi != nil {
		iscsi.ISCSIInterface = cmp.Or(iscsi.ISCSIInterface, "default")
	}
	if rbd := volume.RBD; rbd != nil {
		rbd.RBDPool = cmp.Or(rbd.RBDPool, "rbd")
		rbd.RadosUser = cmp.Or(rbd.RadosUser, "admin")
		rbd.Keyring = cmp.Or(rbd.Keyring, "/etc/ceph/keyring")
	}
	if scaleIO := volume.ScaleIO; scaleIO != nil {
		scaleIO.StorageMode = cmp.Or(scaleIO.StorageMode, "ThinProvisioned")
		scaleIO.FSType = cmp.Or(scaleIO.FSType, "xfs")
	}
}
