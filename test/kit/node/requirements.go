// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// Possible returns nil if a node can run on this machine, and otherwise an error that says what is missing.
func Possible() error {
	switch {
	case runtime.GOOS != "linux":
		return errors.New("a node needs Linux, and this is " + runtime.GOOS)
	case os.Getuid() != 0:
		return errors.New("a node needs root")
	}
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("a node needs containerd from Debian's packages: %w", err)
		}
	}
	for _, controller := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory.stat", "/sys/fs/cgroup/cgroup.controllers"} {
		if _, err := os.Stat(controller); err == nil {
			return isolationPossible()
		}
	}
	return errors.New("a node needs cgroups in /sys/fs/cgroup, and there are none")
}

// isolationPossible fails in containers that may not make namespaces or mount.
func isolationPossible() error {
	output, err := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt").CombinedOutput()
	if err != nil {
		return fmt.Errorf("a node needs namespaces and mounts of its own: %w: %s", err, output)
	}
	return nil
}
