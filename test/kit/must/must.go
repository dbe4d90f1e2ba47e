// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package must gets what a function returns next to an error that no test expects.
package must

import "github.com/onsi/gomega"

// Get returns the value, as in must.Get(os.ReadFile(name))(g). With an error, the test fails.
func Get[T any](value T, err error) func(gomega.Gomega) T {
	return func(g gomega.Gomega) T {
		g.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
		return value
	}
}
