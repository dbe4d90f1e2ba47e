// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestAllUpheavalsStrikeBeforeAnyStrikesAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var struck []string
		noting := func(name string) upheaval {
			return upheaval{name, func(*soak, context.Context, *rand.Rand) error {
				struck = append(struck, name)
				return nil
			}}
		}
		s := &soak{log: io.Discard}
		g.Expect(s.upheave(ctx, rand.New(rand.NewPCG(1, 2)), []upheaval{noting("a"), noting("b"), noting("c")})).To(Succeed())
		g.Expect(len(struck)).To(BeNumerically(">", 30))
		for ; len(struck) >= 3; struck = struck[3:] {
			g.Expect(struck[:3]).To(ConsistOf("a", "b", "c"))
		}
	})
}

func TestAnUpheavalThatFailsEndsTheSoak(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		failing := upheaval{"the machine is on fire", func(*soak, context.Context, *rand.Rand) error { return errors.New("ouch") }}
		err := (&soak{log: io.Discard}).upheave(t.Context(), rand.New(rand.NewPCG(1, 2)), []upheaval{failing})
		g.Expect(err).To(MatchError(`playing the fault "the machine is on fire": ouch`))
	})
}
