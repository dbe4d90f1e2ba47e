// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// What was stored under an older CRD may be below the minimum of today.
func TestNegativeHistoryLimitsOfAnOlderCRDCauseNoPanic(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*scaledjobv1.ScaledJobSpec){
		"succeeded": func(spec *scaledjobv1.ScaledJobSpec) { spec.SuccessfulJobsHistoryLimit = new(int32(-1)) },
		"failed":    func(spec *scaledjobv1.ScaledJobSpec) { spec.FailedJobsHistoryLimit = new(int32(-1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sj := scaledJob()
			set(&sj.Spec)
			w := newWorld(t, sj)
			defer func() { w.Expect(recover()).To(BeNil()) }()
			w.reconcile(t.Context())
		})
	}
}
