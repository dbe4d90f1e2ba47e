// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

func (a *app) suspendCommand() *cobra.Command {
	return a.switchCommand(true, "suspend", "Stop the creation of Jobs",
		"Stop the creation of Jobs for ScaledJobs: spec.suspend becomes true. Running Jobs continue, and the status still shows how many\n"+
			"Jobs are due. A GitOps tool that manages the ScaledJob may undo it: then change spec.suspend there.")
}

func (a *app) resumeCommand() *cobra.Command {
	return a.switchCommand(false, "resume", "Create Jobs again",
		"Create Jobs again for ScaledJobs that were suspended: spec.suspend becomes false. The Jobs for waiting messages are created at\n"+
			"once. It also ends a pause after failed Jobs.")
}

// switchCommand returns a command that sets spec.suspend.
func (a *app) switchCommand(suspended bool, use, short, long string) *cobra.Command {
	var scope scope
	var all bool
	cmd := &cobra.Command{
		Use:               use + " NAME... | -l LABELS | --all",
		Short:             short,
		Long:              long,
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			chosen := 0
			for _, is := range []bool{len(names) > 0, scope.selector != "", all} {
				if is {
					chosen++
				}
			}
			if chosen != 1 {
				return say("Name the ScaledJobs, or choose them with either -l or --all.")
			}
			return a.setSuspend(cmd.Context(), &scope, names, suspended)
		},
	}
	scope.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "All ScaledJobs of the namespace, or with -A of all namespaces")
	return cmd
}

// setSuspend sets spec.suspend of the ScaledJobs. One that can't be changed does not keep the others from it.
func (a *app) setSuspend(ctx context.Context, scope *scope, names []string, suspended bool) error {
	api, err := a.connect(a.flags)
	if err != nil {
		return err
	}
	chosen, err := a.choose(ctx, api, scope, names)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		return say("%s", nothingFound(scope, api.namespace))
	}
	var failed []error
	for i := range chosen {
		if err := a.setOne(ctx, api, &chosen[i], suspended); err != nil {
			failed = append(failed, fmt.Errorf("%s/%s: %w", chosen[i].Namespace, chosen[i].Name, err))
		}
	}
	if len(failed) == 1 && len(chosen) == 1 {
		return errors.Unwrap(failed[0])
	}
	return a.summarize(failed, len(chosen))
}

// summarize prints the errors of some of several ScaledJobs.
func (a *app) summarize(failed []error, total int) error {
	if len(failed) == 0 {
		return nil
	}
	for _, each := range failed {
		if _, err := fmt.Fprintln(a.ErrOut, "error:", sentence(each)); err != nil {
			return err
		}
	}
	return say("%d of %d ScaledJobs could not be changed.", len(failed), total)
}

func (a *app) setOne(ctx context.Context, api *cluster, sj *scaledjobv1.ScaledJob, suspended bool) error {
	word := "resumed"
	if suspended {
		word = "suspended"
	}
	if sj.Spec.Suspend == suspended {
		word += " (unchanged)"
	} else if err := api.suspend(ctx, sj, suspended); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "%s/%s %s\n", resource, sj.Name, word)
	return err
}
