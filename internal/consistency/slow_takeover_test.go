// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package consistency

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The takeover list is one of all Jobs of the cluster. Where it takes longer than a pass may, it must end some time all the same.
func TestTakeoverOfManyJobsEndsThoughEachPassIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pages, perPage, pass = 200, 500 * time.Millisecond, time.Minute
		g := NewWithT(t)
		live := reading(interceptor.Funcs{
			List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				select {
				case <-time.After(perPage):
				case <-ctx.Done():
					return ctx.Err()
				}
				number, _ := strconv.Atoi((&client.ListOptions{}).ApplyOptions(opts).Continue)
				jobs := list.(*metav1.PartialObjectMetadataList)
				jobs.Items, jobs.Continue = nil, ""
				if number+1 < pages {
					jobs.Continue = strconv.Itoa(number + 1)
				}
				return nil
			},
		})
		stores, _ := storesAt(g, "7")
		gate := NewGate(reading(interceptor.Funcs{}), live, stores, nil)
		ready := false
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), pass)
			ready, _ = gate.Ready(ctx, owner1)
			cancel()
			if ready {
				break
			}
		}
		g.Expect(ready).To(BeTrue(), "100,000 Jobs in pages that take %s each, after ten passes of %s", perPage, pass)
	})
}
