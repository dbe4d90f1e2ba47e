// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"miracle.dev/scaledjob-operator/internal/frameworks"
)

func (a *app) initCommand() *cobra.Command {
	var framework string
	var choices frameworks.Choices
	cmd := &cobra.Command{
		Use:   "init --framework FRAMEWORK --queue QUEUE",
		Short: "Print a ScaledJob for a queue of a job framework",
		Long: "Print a complete ScaledJob for a queue of a job framework, with the keys that count and the strategy. Replace the address of\n" +
			"Redis and the image, or give them as flags. Comments say what else to know.",
		Example: "  kubectl scaledjob init --framework bullmq --queue emails > scaledjob.yaml",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.init(framework, &choices)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&framework, "framework", "", "The job framework, such as bullmq")
	flags.StringVar(&choices.Queue, "queue", "", "The name of the queue, as the workers use it")
	flags.StringVar(&choices.Name, "name", "", "The name of the ScaledJob, by default that of the queue")
	flags.StringVar(&choices.RedisAddress, "redis-address", "redis.default.svc.cluster.local:6379", "The address of the Redis server")
	flags.StringVar(&choices.Image, "image", "example/worker:1", "The image of the worker")
	flags.Int64Var(&choices.Threshold, "threshold", 1, "The number of messages for one Job")
	// The flag was just added.
	_ = cmd.RegisterFlagCompletionFunc("framework", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		all, _ := frameworks.All() // Without data, nothing is completed.
		return namesOf(all), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func (a *app) init(name string, choices *frameworks.Choices) error {
	all, err := frameworks.All()
	if err != nil {
		return err
	}
	framework, err := findFramework(all, name)
	if err != nil {
		return err
	}
	choices.Queue = cmp.Or(choices.Queue, framework.DefaultQueue)
	choices.Namespace = *a.flags.Namespace
	choices.Name = cmp.Or(choices.Name, objectName(choices.Queue))
	switch {
	case choices.Queue == "":
		return say("Name the queue: --queue")
	case !utf8.ValidString(choices.Queue):
		return say("The name of the queue is not valid UTF-8.")
	case len(validation.IsDNS1123Subdomain(choices.Name)) > 0:
		return say("A ScaledJob can't have the name %q. Choose one of lower case letters, digits and - with --name.", choices.Name)
	case choices.Threshold < 1:
		return say("The threshold is %d, and has to be at least 1.", choices.Threshold)
	}
	_, err = fmt.Fprint(a.Out, framework.Manifest(*choices, defaultWidth))
	return err
}

// findFramework returns the framework. The error for one that is not known names the nearest, and all.
func findFramework(all []frameworks.Framework, name string) (*frameworks.Framework, error) {
	for i := range all {
		if strings.EqualFold(all[i].ID, name) {
			return &all[i], nil
		}
	}
	names := namesOf(all)
	list := strings.Join(names, ", ")
	if name == "" {
		return nil, say("Name the framework with --framework: %s", list)
	}
	return nil, say("There is no framework %q. %s", name, suggest(strings.ToLower(name), names, "The frameworks are: "+list))
}

func namesOf(all []frameworks.Framework) []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].ID
	}
	return names
}

// unfit are the characters that the name of an object can't have.
var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// objectName returns a name of an object for a queue; empty if nothing is left of it.
func objectName(queue string) string {
	return strings.Trim(unfit.ReplaceAllString(strings.ToLower(queue), "-"), "-")
}
