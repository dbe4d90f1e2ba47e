// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package frameworks

import (
	"fmt"
	"strings"
)

// Table returns the table of the frameworks in Markdown.
func Table(all []Framework) string {
	var rows strings.Builder
	rows.WriteString("| framework | `--framework` | number of Jobs | keys |\n|---|---|---|---|\n")
	for i := range all {
		f := &all[i]
		name := f.Name
		if f.Page != "" {
			name = fmt.Sprintf("[%s](frameworks/%s.md)", f.Name, f.Page)
		}
		number, _, _ := strings.Cut(f.Number, ":")
		number, _, _ = strings.Cut(number, ".")
		number, _, _ = strings.Cut(number, " if")
		fmt.Fprintf(&rows, "| %s | `%s` | %s | %s |\n", name, f.ID, number, f.Evidence)
	}
	return rows.String()
}
