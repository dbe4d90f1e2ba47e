// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

// workersFolder has the workers that the page shows.
const workersFolder = "docs/tutorials/workers"

// language is one in which there is a worker.
type language struct {
	file string
	// program runs the file. It is empty for Go, whose worker is compiled.
	program string
}

var languages = map[string]language{
	"shell":  {file: "worker.sh", program: "sh"},
	"python": {file: "worker.py", program: "python3"},
	"node":   {file: "worker.mjs", program: "node"},
	"go":     {file: "worker.go"},
}

// built is the folder of the workers in Go.
var built string

func buildWorkers(ctx context.Context) (err error) {
	if built, err = os.MkdirTemp("", "worker"); err != nil {
		return err
	}
	_, err = programs.Go(ctx, root, "build", "-buildvcs=false", "-o", built+"/", "./"+workersFolder, "./"+sentinelFolder)
	return err
}

func removeWorkers() error { return os.RemoveAll(built) }

// command returns the command of the worker. Without its language on this machine, the test is skipped.
func (l language) command(t *testing.T) []string {
	t.Helper()
	if l.program == "" {
		return []string{filepath.Join(built, "workers")}
	}
	if _, err := exec.LookPath(l.program); errors.Is(err, exec.ErrNotFound) {
		// The workers in shell and Go run everywhere, and pass the same tests.
		t.Skipf("this machine has no %s, which runs %s", l.program, l.file)
	}
	file := must.Get(filepath.Abs(filepath.Join(root, workersFolder, l.file)))(NewWithT(t))
	return []string{l.program, file}
}

// inEachLanguage runs a test once for each worker.
func inEachLanguage(t *testing.T, test func(w *worker)) {
	t.Helper()
	for name, of := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newWorker(t, of.command(t)))
		})
	}
}
