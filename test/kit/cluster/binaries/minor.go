// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// minorVariable names the environment variable that selects the minor version of Kubernetes.
	minorVariable = "K8S"
	defaultMinor  = "1.37"
	// kubernetes has a nested module for each minor version.
	kubernetes = "kubernetes"
)

// minor returns the minor version of Kubernetes to run, one of those with a folder in dir.
func minor(dir string) (string, error) {
	wanted := cmp.Or(os.Getenv(minorVariable), defaultMinor)
	modules, err := filepath.Glob(filepath.Join(dir, "*", "go.mod"))
	if err != nil {
		return "", err
	}
	var known []string
	for _, module := range modules {
		known = append(known, filepath.Base(filepath.Dir(module)))
	}
	if !slices.Contains(known, wanted) {
		return "", fmt.Errorf("%s=%s is not a version to run; choose one of %s", minorVariable, wanted, strings.Join(known, ", "))
	}
	return wanted, nil
}
