// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apiversion "k8s.io/apimachinery/pkg/version"
)

func TestOldKubernetesIsLogged(t *testing.T) {
	t.Parallel()
	answers := func(version string) func(context.Context) (*apiversion.Info, error) {
		return func(context.Context) (*apiversion.Info, error) { return &apiversion.Info{GitVersion: version}, nil }
	}
	fails := func(context.Context) (*apiversion.Info, error) { return nil, errors.New("forbidden") }
	hangs := func(ctx context.Context) (*apiversion.Info, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, c := range map[string]struct {
		read  func(context.Context) (*apiversion.Info, error)
		waits time.Duration
		says  []string // empty if nothing is logged
	}{
		"supported":       {answers("v1.34.0"), 0, nil},
		"newer":           {answers("v1.99.1+build"), 0, nil},
		"too old":         {answers("v1.33.9-gke.7"), 0, []string{"upgrade the cluster", `"version"="v1.33.9-gke.7"`, `"oldestSupported"="1.34"`}},
		"no version":      {answers("unknown"), 0, []string{"starting without checking it", "unknown"}},
		"not told":        {fails, 0, []string{"starting without checking it", "forbidden"}},
		"no answer comes": {hangs, 5 * time.Second, []string{"starting without checking it", "deadline"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				var lines []string
				log := listen(&lines)
				began := time.Now()
				g.Expect(await(t.Context(), log, warnsOfOldKubernetes(c.read, log))).To(BeTrue(), "the operator starts")
				g.Expect(time.Since(began)).To(Equal(c.waits))
				if c.says == nil {
					g.Expect(lines).To(BeEmpty())
					return
				}
				g.Expect(lines).To(HaveLen(1))
				for _, words := range c.says {
					g.Expect(lines[0]).To(ContainSubstring(words))
				}
			})
		})
	}
}
