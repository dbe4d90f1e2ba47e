// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
)

// The text is a value and not the message: some log formats do not escape the message, and a server can make the
// library log any text.
func TestWhatTheLibraryLogsIsVerbose(t *testing.T) {
	t.Parallel()
	for verbosity, want := range [][]string{nil, {`"level"=1 "msg"="Message of the Redis client library" "text"="dial 7\nand 8"`}} {
		var lines []string
		log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: verbosity})
		libraryLogger{log: log.V(1)}.Printf(t.Context(), "dial %d\nand %d", 7, 8)
		NewWithT(t).Expect(lines).To(Equal(want))
	}
}
