// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

const (
	// defaultInterval is the time between two reads of the ScaledJobs, and minInterval the least.
	defaultInterval = 2 * time.Second
	minInterval     = time.Second
)

func (a *app) topCommand() *cobra.Command {
	var scope scope
	var output output
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the ScaledJobs with the most messages",
		Long: "Show the ScaledJobs by their outstanding messages, those with the most first, and keep the table current. Those whose messages\n" +
			"are not known come before the others. Without a terminal, with -o, or if NO_COLOR is set, the table is printed once.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.check(); err != nil {
				return err
			}
			if interval < minInterval {
				return say("The interval is %s, and has to be at least %s.", interval, minInterval)
			}
			return a.top(cmd.Context(), &scope, &output, interval)
		},
	}
	scope.add(cmd)
	output.add(cmd, formatWide, formatJSON, formatYAML)
	cmd.Flags().DurationVar(&interval, "interval", defaultInterval, "The time between two updates")
	return cmd
}

func (a *app) top(ctx context.Context, scope *scope, output *output, interval time.Duration) error {
	api, err := a.connect(a.flags)
	if err != nil {
		return err
	}
	selector, err := scope.labels()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	load := func() ([]scaledjobv1.ScaledJob, error) {
		all, err := api.list(ctx, scope.namespace(api), selector)
		byBacklog(all)
		return all, err
	}
	all, err := load()
	if err != nil {
		return err
	}
	if output.format != formatText || !isRich(a.In, a.Out) {
		return a.printStatuses(all, scope, output, api.namespace)
	}
	screen := newScreen(load, interval, a.now)
	screen.namespaces, screen.nothing = scope.allNamespaces, nothingFound(scope, api.namespace)
	screen.show(all)
	return a.draw(ctx, screen)
}

// byBacklog sorts ScaledJobs: those whose messages are not known, and then those with the most.
func byBacklog(all []scaledjobv1.ScaledJob) {
	slices.SortStableFunc(all, func(x, y scaledjobv1.ScaledJob) int {
		m, n := x.Status.QueueDepth, y.Status.QueueDepth
		switch {
		case m == nil && n == nil:
			return 0
		case m == nil:
			return -1
		case n == nil:
			return 1
		}
		return cmp.Compare(*n, *m)
	})
}

// draw shows the screen until the user ends it, and then restores the terminal.
func (a *app) draw(ctx context.Context, first *screen) error {
	program := tea.NewProgram(first, tea.WithInput(a.In), tea.WithOutput(a.Out), tea.WithoutSignalHandler())
	defer context.AfterFunc(ctx, program.Quit)()
	if _, err := program.Run(); err != nil {
		return fmt.Errorf("drawing on the terminal: %w", err)
	}
	return first.ended
}
