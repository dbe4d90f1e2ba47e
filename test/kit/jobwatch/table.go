// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobwatch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// Row is what came of a fault.
type Row struct {
	Fault, Promise string
	// Lost is how many Jobs did not come although they were due, and Over how many came that were not.
	Lost, Over int
	// Recovery is how long after the end of the fault all Jobs were there.
	Recovery time.Duration
}

// Table is what came of many faults. The zero value is empty. It is safe for concurrent use.
type Table struct {
	mu   sync.Mutex
	rows []Row
}

// Add adds a row.
func (t *Table) Add(row Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, row)
}

// Write writes the rows to a file as a table in Markdown, in the order of their names. Without a path it does nothing.
func (t *Table) Write(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the table of faults: %w", err)
	}
	return errors.Join(t.write(file), file.Close())
}

func (t *Table) write(to io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortFunc(t.rows, func(a, b Row) int { return cmp.Compare(a.Fault, b.Fault) })
	_, err := fmt.Fprint(to, "| fault | promise | wake-ups lost | Jobs over | back after |\n|---|---|---|---|---|\n")
	if err != nil {
		return err
	}
	for _, row := range t.rows {
		_, err := fmt.Fprintf(to, "| %s | %s | %d | %d | %.2f s |\n",
			row.Fault, row.Promise, row.Lost, row.Over, row.Recovery.Seconds())
		if err != nil {
			return err
		}
	}
	return nil
}
