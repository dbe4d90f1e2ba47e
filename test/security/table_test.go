// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// errorTable is what came of the errors that were provoked: what was told, and how
// long it took to recover. The zero value is empty. It is safe for concurrent use.
type errorTable struct {
	mu   sync.Mutex
	took map[string]time.Duration // by situation
}

// add notes how long it took from mending to the last Job.
func (t *errorTable) add(r row, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.took == nil {
		t.took = map[string]time.Duration{}
	}
	t.took[r.situation] = took
}

// write writes the rows that were measured to a file as a table in Markdown.
// Without a path it does nothing.
func (t *errorTable) write(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the table of errors: %w", err)
	}
	return errors.Join(t.print(file), file.Close())
}

func (t *errorTable) print(to io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := fmt.Fprint(to, "| situation | reason | the ScaledJob is | mended by | Jobs after |\n|---|---|---|---|---|\n")
	for _, r := range allRows() {
		took, measured := t.took[r.situation]
		if err == nil && measured {
			_, err = fmt.Fprintf(to, "| %s | %s | %s | %s | %.1f s |\n",
				cell(r.situation), r.reason, r.state, cell(r.cure), took.Seconds())
		}
	}
	return err
}

// cell is the text in a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
