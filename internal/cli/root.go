// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is kubectl scaledjob: it shows, explains and plans ScaledJobs with the permissions of the user, finds
// faults, and converts ScaledJobs of KEDA. It knows what the operator knows by the operator's own pure packages, and
// nothing of its controller.
//
//	root.go     the commands and their common flags
//	errors.go   what an error means to a user, and the exit codes
//	cluster.go  the API server
//	output.go   the forms of output
//	status.go, top.go, suspend.go, explain.go, plan.go, init.go, convert.go, doctor.go  the commands
//	screen.go   what top shows on a terminal
//	redis.go    how Redis is asked
//	installation.go, examination.go  what doctor reads
//
// No command builds a client before it runs, so that help, completion and version need no cluster.
package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Options are what the process gives to the commands.
type Options struct {
	// Args are the arguments after the name of the program.
	Args []string
	// In, Out and ErrOut are the standard streams.
	In          io.Reader
	Out, ErrOut io.Writer
	// Version is that of the program.
	Version string
}

// app is a run of a command.
type app struct {
	Options

	flags *genericclioptions.ConfigFlags
	// connect makes the client, and now is the clock.
	connect func(*genericclioptions.ConfigFlags) (*cluster, error)
	now     func() time.Time
}

// Run runs a command and returns its exit code. Errors are printed as one sentence each.
func Run(ctx context.Context, options Options) int {
	return (&app{Options: options, connect: connect, now: time.Now}).run(ctx)
}

func (a *app) run(ctx context.Context) int {
	root := a.root() //nolint:contextcheck // The commands get it from ExecuteContext.
	root.SetArgs(a.Args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if text := sentence(err); err.Error() != "" {
		_, _ = fmt.Fprintln(a.ErrOut, "error:", text)
	}
	return codeOf(err)
}

// root returns the command with all others below it.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-scaledjob",
		Short: "Show, explain, plan and convert ScaledJobs, and find faults",
		Long: "Show, explain and plan ScaledJobs, find faults, write first manifests, suspend and resume ScaledJobs, and convert those of KEDA.\n\n" +
			"All commands work with your own permissions in the cluster. docs/reference/cli.md describes each of them.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl scaledjob"},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return say("%v. See the flags with: %s --help", err, cmd.CommandPath())
	})
	a.flags = commonFlags()
	a.flags.AddFlags(root.PersistentFlags())
	root.AddCommand(a.statusCommand(), a.topCommand(), a.explainCommand(), a.doctorCommand(), a.planCommand(), a.initCommand(),
		a.suspendCommand(), a.resumeCommand(), a.convertCommand(), a.versionCommand())
	return root
}

// commonFlags are those of kubectl that choose the cluster, the namespace and the user. None of them takes a
// credential: other users of the machine see the arguments of a process.
func commonFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	flags.BearerToken, flags.Username, flags.Password = nil, nil, nil
	flags.CertFile, flags.KeyFile, flags.CAFile, flags.TLSServerName, flags.Insecure = nil, nil, nil, nil, nil
	*flags.Timeout = requestTimeout.String()
	flags.CacheDir, flags.DisableCompression, flags.ProxyURL, flags.ImpersonateUserExtra = nil, nil, nil, nil
	return flags
}

// noSuchCommand is the error of arguments that are no command.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, each := range cmd.Commands() {
		names = append(names, each.Name())
	}
	return say("There is no command %q. %s", args[0], suggest(args[0], names, "See the commands with: "+cmd.CommandPath()+" --help"))
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Out, a.Version)
			return err
		},
	}
}

// scope are the flags that choose ScaledJobs.
type scope struct {
	selector      string
	allNamespaces bool
}

func (s *scope) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.selector, "selector", "l", "", "Only ScaledJobs with these labels, as in kubectl get")
	cmd.Flags().BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "The ScaledJobs of all namespaces")
}

// namespace returns the namespace to list; empty for all.
func (s *scope) namespace(c *cluster) string {
	if s.allNamespaces {
		return ""
	}
	return c.namespace
}

// labels parses the selector.
func (s *scope) labels() (labels.Selector, error) {
	parsed, err := labels.Parse(s.selector)
	if err != nil {
		return nil, say("The selector %q is not valid: %v.", s.selector, err)
	}
	return parsed, nil
}

// completeNames completes the names of ScaledJobs. Without a cluster there are none.
func (a *app) completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	api, err := a.connect(a.flags)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := api.list(cmd.Context(), api.namespace, labels.Everything())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range all {
		if !slices.Contains(args, all[i].Name) {
			names = append(names, all[i].Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
