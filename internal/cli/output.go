// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/internal/cli/layout"
)

// apiVersion is the version of what the commands print as JSON and YAML. Fields are only ever added to it.
const apiVersion = "cli.batch.miracle.dev/v1"

// The forms of output.
const (
	formatText = ""
	formatWide = "wide"
	formatJSON = "json"
	formatYAML = "yaml"
)

// output is the flag for the form of the output.
type output struct {
	format string
	forms  []string
}

// add adds the flag. forms are those that the command has besides text.
func (o *output) add(cmd *cobra.Command, forms ...string) {
	o.forms = forms
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "The form of the output: "+strings.Join(forms, ", ")+"; by default text")
	// The flag was just added.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) check() error {
	if o.format == formatText || slices.Contains(o.forms, o.format) {
		return nil
	}
	return say("There is no output %q. Use -o with one of: %s", o.format, strings.Join(o.forms, ", "))
}

// isData reports whether the output is for programs.
func (o *output) isData() bool { return o.format == formatJSON || o.format == formatYAML }

// write writes a value for programs.
func (o *output) write(to io.Writer, value any) error {
	encoded, err := json.MarshalIndent(value, "", "  ")
	if err == nil && o.format == formatYAML {
		encoded, err = yaml.JSONToYAML(encoded)
	}
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	_, err = fmt.Fprintln(to, strings.TrimSuffix(string(encoded), "\n"))
	return err
}

const (
	// defaultWidth is the number of columns of text where there is no terminal, and minWidth the least on one.
	defaultWidth = 100
	minWidth     = 20
)

// isRich reports whether all streams are a terminal on which signs, colors and updates can be shown, and whether the
// user wants them.
func isRich(streams ...any) bool {
	for _, stream := range streams {
		file, isFile := stream.(*os.File)
		if !isFile || !term.IsTerminal(int(file.Fd())) {
			return false
		}
	}
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// widthOf returns how many columns text may have.
func widthOf(to io.Writer) int {
	file, isFile := to.(*os.File)
	if !isFile {
		return defaultWidth
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return defaultWidth
	}
	return min(max(width, minWidth), defaultWidth)
}

// number returns a number, or that it is not known.
func number[T int32 | int64](n *T) string {
	if n == nil {
		return layout.Unknown
	}
	return strconv.FormatInt(int64(*n), 10)
}

// short returns a duration as kubectl writes ages.
func short(d time.Duration) string { return duration.HumanDuration(d) }
