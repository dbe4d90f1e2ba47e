// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAPublishedFileIsAlwaysThere(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	linked, path := filepath.Join(dir, "linked"), filepath.Join(dir, "operator")
	link := func(content string) {
		g.Expect(os.RemoveAll(linked)).To(Succeed())
		g.Expect(os.WriteFile(linked, []byte(content), 0o600)).To(Succeed())
		g.Expect(publish(linked, path)).To(Succeed())
	}
	link("old")
	g.Expect(publish(linked, path)).To(Succeed(), "of what has not changed")

	done := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if content, err := os.ReadFile(path); string(content) != "old" {
					t.Errorf("the file holds %q: %v", content, err)
					return
				}
			}
		}
	})
	for range 100 {
		link("old")
	}
	close(done)
	reading.Wait()
	link("new")
	g.Expect(os.ReadFile(path)).To(BeEquivalentTo("new"))
}
