// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"fmt"
	"slices"
)

// published is what others have built and offer for download, without the https:// of the addresses.
type published struct {
	file     string
	checksum string // the address of the file's SHA-256; empty if there is none
	member   string // the path of the program, if the file is an archive
}

// publishedFor returns where a program is published for a platform, such as linux and amd64.
func publishedFor(program Program, version, system, machine string) (published, bool) {
	platform := system + "/" + machine
	linux := []string{"linux/amd64", "linux/arm64"}
	switch program {
	case KubeAPIServer, ControllerManager, Scheduler, Kubelet, Proxy:
		return ofKubernetes(program, version, platform), slices.Contains(linux, platform)
	case Kubectl:
		return ofKubernetes(program, version, platform), slices.Contains(append(linux, "darwin/amd64", "darwin/arm64"), platform)
	case Etcd:
		release := "github.com/etcd-io/etcd/releases/download/" + version
		name := fmt.Sprintf("etcd-%s-%s-%s", version, system, machine)
		archive := published{file: release + "/" + name + ".tar.gz", checksum: release + "/SHA256SUMS", member: name + "/etcd"}
		return archive, slices.Contains(linux, platform)
	default:
		return published{}, false
	}
}

func ofKubernetes(program Program, version, platform string) published {
	file := fmt.Sprintf("dl.k8s.io/%s/bin/%s/%s", version, platform, program)
	return published{file: file, checksum: file + ".sha256"}
}
