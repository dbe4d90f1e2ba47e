// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Write writes a script that the test runs, and returns its path. While it writes, the process starts no other program:
// a child would inherit the open file, and the kernel runs no program that a process can still write ("text file
// busy").
func Write(tb testing.TB, folder, file, content string) string {
	tb.Helper()
	path := filepath.Join(folder, file)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		tb.Fatal(err)
	}
	return path
}
