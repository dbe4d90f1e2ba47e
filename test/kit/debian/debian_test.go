// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"testing"

	. "github.com/onsi/gomega"
)

// Without a network, apt-get update succeeds, and apt-get install does not find the package.
func TestErrorSaysWhyUpdateFoundNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(reasons(`Ign:1 http://mirror.example/debian stable InRelease
Err:1 http://mirror.example/debian stable InRelease
  Temporary failure resolving 'mirror.example'
W: Failed to fetch http://mirror.example/debian/InRelease  Temporary failure resolving 'mirror.example'
W: Some index files failed to download. They have been ignored, or old ones used instead.
E: Unable to locate package redis-tools
`)).To(Equal(`W: Failed to fetch http://mirror.example/debian/InRelease  Temporary failure resolving 'mirror.example'
E: Unable to locate package redis-tools`))
	g.Expect(reasons("Killed\n")).To(Equal("Killed\n"))
}

func TestFetchWithoutANetwork(t *testing.T) {
	g := NewWithT(t)
	if !Available() {
		t.Skip("apt-get is what is tested, and this machine has none")
	}
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	t.Setenv("https_proxy", "http://127.0.0.1:1")
	err := Fetch(t.Context(), t.TempDir(), "package-that-does-not-exist")
	g.Expect(err).To(MatchError(HavePrefix("apt-get install: exit status 100\n")))
	g.Expect(err).To(MatchError(ContainSubstring("E: Unable to locate package package-that-does-not-exist")))
}
