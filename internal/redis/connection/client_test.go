// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
)

// It is not the message: some logs have that as it is, and a server can have it repeat any line.
func TestWhatTheLibraryLogsIsVerbose(t *testing.T) {
	t.Parallel()
	for verbosity, want := range [][]string{nil, {`"level"=1 "msg"="The client library says" "text"="dial 7\nand 8"`}} {
		var lines []string
		log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: verbosity})
		libraryLogger{log: log.V(1)}.Printf(t.Context(), "dial %d\nand %d", 7, 8)
		NewWithT(t).Expect(lines).To(Equal(want))
	}
}
