// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// OldestKubernetes is the oldest version of Kubernetes that the operator supports.
const OldestKubernetes = "1.34"

// Supported reports whether the operator supports a version of Kubernetes, such as v1.34.4-gke.100. It returns an error
// if the text is not a version.
func Supported(kubernetes string) (bool, error) {
	is, err := version.ParseGeneric(kubernetes)
	if err != nil {
		return false, fmt.Errorf("the API server names a version that can't be compared: %w", err)
	}
	return is.AtLeast(version.MustParseGeneric(OldestKubernetes)), nil
}
