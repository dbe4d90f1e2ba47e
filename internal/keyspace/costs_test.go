// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package keyspace

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/keyspace/verify"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// What a server costs whose ten keys are tracked and read: two connections, and a goroutine each for sending, receiving,
// reading the setting, and keeping the server.
//
//nolint:paralleltest // It counts goroutines.
func TestAServerCostsLittle(t *testing.T) {
	const servers, keys = 4, 10
	h, first := newTracked(t)
	use := func(server *redistest.Server, id string) {
		var lists []Key
		for i := range keys {
			lists = append(lists, list(fmt.Sprint(id, i)))
		}
		endpoint := auth.Endpoint{Address: server.Addr()}
		h.Ensure(id, endpoint, lists...)
		h.eventuallyTracked(id, verify.TrackedUnproven)
		_, err := h.read(t.Context(), endpoint, id+"0")
		h.Expect(err).NotTo(HaveOccurred())
	}
	use(first, "first")
	before := goroutines()
	others := []*redistest.Server{}
	for i := range servers {
		server := redistest.New(t, redistest.Options{Events: redistest.NoEvents})
		others = append(others, server)
		use(server, fmt.Sprint("other", i))
	}
	h.Eventually(func() int { return (goroutines() - before) / servers }).WithTimeout(timeout).Should(BeNumerically("<=", 4))
	t.Logf("%d goroutines for each server", (goroutines()-before)/servers)
	for _, server := range others {
		list, err := server.Client().ClientList(t.Context()).Result()
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(strings.Count(list, "\n")).To(BeNumerically("<=", 1+2), "the connections of the operator, and this one")
	}
}

// goroutines returns how many goroutines of the operator there are.
func goroutines() (found int) {
	stacks := make([]byte, 64<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "/internal/keyspace") || strings.Contains(stack, "/internal/redis/") {
			found++
		}
	}
	return found
}
