// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"os"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestEachMessageIsTakenOnce(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{Log: os.Stderr})
	redis := server.Client()
	stream := must.Get(ConsumerGroup(t.Context(), redis, "stream"))(NewWithT(t))
	for name, test := range map[string]struct {
		kind Kind
		// left is how many messages Redis knows of once all are taken.
		left int64
	}{
		"reliable list":  {ReliableList(redis, "reliable"), 20},
		"consumer group": {stream, 20},
		"pop at start":   {PopAtStart(redis, "pop"), 0},
		"remove at end":  {RemoveAtEnd(redis, "remove"), 20},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			staff := Staff{Kind: test.kind}
			g.Expect(staff.Push(t.Context(), 20)).To(Succeed())
			oldest, _, err := test.kind.Take(t.Context(), "worker")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(oldest.Body).To(Equal("message-1"))
			messages := append(takeAtOnce(t, test.kind, 30), oldest)
			g.Expect(messages).To(HaveLen(20))
			g.Expect(bodies(messages)).To(HaveLen(20))
			g.Expect(test.kind.Left(t.Context())).To(Equal(test.left))
			for _, message := range messages {
				g.Expect(message.Finish(t.Context())).To(Succeed())
			}
			g.Expect(test.kind.Left(t.Context())).To(BeZero())
		})
	}
}

// takeAtOnce has so many workers take a message, and returns what they found.
func takeAtOnce(t *testing.T, kind Kind, workers int) (messages []Message) {
	t.Helper()
	found := make(chan Message, workers)
	var group errgroup.Group
	for range workers {
		group.Go(func() error {
			message, is, err := kind.Take(t.Context(), "worker")
			if is {
				found <- message
			}
			return err
		})
	}
	NewWithT(t).Expect(group.Wait()).To(Succeed())
	close(found)
	for message := range found {
		messages = append(messages, message)
	}
	return messages
}

// bodies are those of the messages, each once.
func bodies(messages []Message) []string {
	var all []string
	for _, message := range messages {
		all = append(all, message.Body)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
