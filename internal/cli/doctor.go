// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"miracle.dev/scaledjob-operator/internal/cli/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	var output output
	var how inquiry
	cmd := &cobra.Command{
		Use:   "doctor [NAME]",
		Short: "Find what is wrong with the operator, or with a ScaledJob",
		Long: "Find what is wrong with the installation of the operator and, with a name, with a ScaledJob, and say how to fix it. The exit code\n" +
			"is 3 if a warning or an error was found.\n\n" +
			"It changes nothing, except for a scratch key with --probe. It connects to Redis from where it runs, with the credentials of the\n" +
			"operator. If the address only works in the cluster, forward a port and name it with --redis-address.",
		Args: func(_ *cobra.Command, names []string) error {
			if len(names) > 1 {
				return say("Name one ScaledJob: kubectl scaledjob doctor NAME")
			}
			if len(names) == 0 && how != (inquiry{}) {
				return say("Redis is checked for a ScaledJob. Name one: kubectl scaledjob doctor NAME")
			}
			return how.check()
		},
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := output.check(); err != nil {
				return err
			}
			return a.doctor(cmd.Context(), &output, &how, names)
		},
	}
	output.add(cmd, formatJSON, formatYAML)
	how.addAddress(cmd)
	cmd.Flags().BoolVar(&how.scan, "scan", false, "If a key is empty, look for keys with similar names, among up to 100,000")
	cmd.Flags().BoolVar(&how.probe, "probe", false, "Push to a scratch key and see whether a notification comes. Redis must allow the operator's user to write")
	return cmd
}

func (a *app) doctor(ctx context.Context, output *output, how *inquiry, names []string) error {
	api, err := a.connect(a.flags)
	if err != nil {
		return err
	}
	e := &examination{cluster: api, facts: doctor.Facts{
		Version: a.Version, Now: a.now(), Namespace: api.namespace, Missing: map[doctor.Need]string{},
	}}
	if err := e.read(ctx, how, names); err != nil {
		return err
	}
	return a.writeReport(output, doctor.Examine(&e.facts))
}

func (a *app) writeReport(output *output, is doctor.Report) error {
	is.APIVersion, is.Kind = apiVersion, "DoctorReport"
	var err error
	if output.isData() {
		err = output.write(a.Out, is)
	} else {
		_, err = fmt.Fprint(a.Out, is.Text(widthOf(a.Out), !isRich(a.Out)))
	}
	if err == nil && is.Found() {
		return &userError{code: exitFound}
	}
	return err
}
