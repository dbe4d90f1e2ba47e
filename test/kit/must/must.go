// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package must gets what a function returns next to an error that no test expects.
package must

import (
	"errors"

	"github.com/onsi/gomega"
)

// Get returns the value, as in must.Get(os.ReadFile(name))(g). With an error, the test fails.
func Get[T any](value T, err error) func(gomega.Gomega) T {
	return func(g gomega.Gomega) T {
		g.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
		return value
	}
}

// failure is what an expectation says that is not met.
type failure struct{ error }

// Try runs a function up to the first expectation that is not met, which is the error. It is for what starts before any
// test.
func Try(do func(g gomega.Gomega)) (err error) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case failure:
			err = reason
		default:
			panic(reason)
		}
	}()
	do(gomega.NewGomega(func(message string, _ ...int) { panic(failure{errors.New(message)}) }))
	return nil
}
