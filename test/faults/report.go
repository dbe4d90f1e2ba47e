// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"io"
	"time"
)

// Row is what came of a fault.
type Row struct {
	Fault, Promise string
	// Lost is how many Jobs did not come, for messages of which the operator never
	// heard, and Over how many came that were not due.
	Lost, Over int
	// Recovery is how long after the end of the fault all Jobs were there.
	Recovery time.Duration
}

// WriteTable writes rows as a table in Markdown.
func WriteTable(to io.Writer, rows []Row) error {
	if _, err := fmt.Fprint(to, "| fault | promise | wake-ups lost | Jobs over | back after |\n|---|---|---|---|---|\n"); err != nil {
		return err
	}
	for _, row := range rows {
		_, err := fmt.Fprintf(to, "| %s | %s | %d | %d | %.2f s |\n",
			row.Fault, row.Promise, row.Lost, row.Over, row.Recovery.Seconds())
		if err != nil {
			return err
		}
	}
	return nil
}
