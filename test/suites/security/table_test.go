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
	mu  sync.Mutex
	met map[string]meeting // by situation
}

// meeting is what was told of an error, and how long it took from mending to the last Job.
type meeting struct {
	message string
	took    time.Duration
}

func (t *errorTable) add(r row, met meeting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.met == nil {
		t.met = map[string]meeting{}
	}
	t.met[r.situation] = met
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
	_, err := fmt.Fprint(to, "| situation | reason | the ScaledJob is | message | fixed by | Jobs after |\n|---|---|---|---|---|---|\n")
	for _, r := range allRows() {
		met, was := t.met[r.situation]
		if err == nil && was {
			_, err = fmt.Fprintf(to, "| %s | %s | %s | %s | %s | %.1f s |\n",
				cell(r.situation), r.reason, r.state, literal(cell(met.message)), cell(r.cure), met.took.Seconds())
		}
	}
	return err
}

// cell is the text in a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// literal is a text without a meaning in Markdown.
func literal(text string) string {
	return strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`).Replace(text)
}
