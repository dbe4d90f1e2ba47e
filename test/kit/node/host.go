// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// kernelSettings are those that a kubelet changes for the whole machine, which no namespace prevents.
var kernelSettings = []string{
	"/proc/sys/vm/overcommit_memory", "/proc/sys/vm/panic_on_oom",
	"/proc/sys/kernel/panic", "/proc/sys/kernel/panic_on_oops",
	"/proc/sys/kernel/keys/root_maxkeys", "/proc/sys/kernel/keys/root_maxbytes",
}

// restoringHost calls do, and then restores what a node changes outside its namespaces.
func restoringHost(do func() error) error {
	before := map[string][]byte{}
	for _, setting := range kernelSettings {
		value, err := os.ReadFile(setting)
		if err != nil {
			return err
		}
		before[setting] = value
	}
	errs := []error{do()}
	for setting, value := range before {
		errs = append(errs, os.WriteFile(setting, value, 0o600))
	}
	return errors.Join(append(errs, removeCgroups())...)
}

// removeCgroups removes the groups of containers that are gone. Others can't be removed.
func removeCgroups() error {
	roots, err := filepath.Glob("/sys/fs/cgroup/*/k8s.io")
	if err != nil {
		return err
	}
	for _, root := range append(roots, "/sys/fs/cgroup/k8s.io") {
		var groups []string
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, group := range slices.Backward(groups) {
			_ = os.Remove(group)
		}
	}
	return nil
}
