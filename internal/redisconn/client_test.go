// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
)

func TestWhatTheLibraryLogsIsVerbose(t *testing.T) {
	t.Parallel()
	for verbosity, want := range [][]string{nil, {`"level"=1 "msg"="dial 7"`}} {
		var lines []string
		log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: verbosity})
		libraryLogger{log: log.V(1)}.Printf(t.Context(), "dial %d", 7)
		NewWithT(t).Expect(lines).To(Equal(want))
	}
}
