// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/convert"
	"miracle.dev/scaledjob-operator/internal/cli/explain"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
	"miracle.dev/scaledjob-operator/internal/scaling"
)

// planned are the flags of plan.
type planned struct {
	file string
	// reported is true if the ScaledJob has a status.
	reported bool
	depths   []string
	numbers  explain.Numbers
	// spec has the fields that replace those of the ScaledJob, if their flags are set.
	spec                    scaledjobv1.ScaledJobSpec
	maxReplicas, maxPending int32
	strategy, calculation   string
	set                     func(flag string) bool
	specFlags               map[string]func(*scaledjobv1.ScaledJobSpec)
}

func (a *app) planCommand() *cobra.Command {
	var p planned
	var output output
	cmd := &cobra.Command{
		Use:   "plan [NAME] [-f FILE] --depth N | KEY=N...",
		Short: "Compute how many Jobs would be created",
		Long: "Compute how many Jobs the operator would create for a number of messages and active Jobs, and show by which arithmetic.\n\n" +
			"The configuration is that of a ScaledJob in the cluster, or with -f in a file, or else of a list with the defaults. The flags\n" +
			"that are named like fields replace these. With a ScaledJob in the cluster, its status has the numbers that no flag gives.\n" +
			"Pauses, quotas and what else may hold Jobs back are not part of it: see explain.",
		Example: "  kubectl scaledjob plan --depth 47 --threshold 10\n" +
			"  kubectl scaledjob plan emails --depth 5000 --max-replicas 50\n" +
			"  kubectl scaledjob plan -f scaledjob.yaml --depth urgent=3 --depth bulk=250 --active 2 --pending 1",
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := output.check(); err != nil {
				return err
			}
			if len(names) > 1 {
				return say("Name one ScaledJob: kubectl scaledjob plan NAME")
			}
			p.set = cmd.Flags().Changed
			return a.plan(cmd.Context(), &p, &output, names)
		},
	}
	p.add(cmd.Flags())
	output.add(cmd, formatJSON, formatYAML)
	for flag, words := range map[string][]string{"scaling-strategy": strategies, "queues-calculation": calculations} {
		// The flags were just added.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

// The values of the flags for fields with words.
var (
	strategies = []string{
		string(scaledjobv1.StrategyDefault), string(scaledjobv1.StrategyAccurate), string(scaledjobv1.StrategyEager), string(scaledjobv1.StrategyCustom),
	}
	calculations = []string{
		string(scaledjobv1.CalculateSum), string(scaledjobv1.CalculateMax), string(scaledjobv1.CalculateMin), string(scaledjobv1.CalculateAvg),
	}
)

// add adds the flags.
func (p *planned) add(flags *pflag.FlagSet) {
	flags.StringVarP(&p.file, "filename", "f", "", "A manifest with the ScaledJob, or - for standard input")
	flags.StringArrayVar(&p.depths, "depth", nil, "The messages: N, or KEY=N for each key, or KEY=N+M with M pending entries of a stream's group")
	flags.Int64Var(&p.numbers.Active, "active", 0, "The unfinished Jobs")
	flags.Int64Var(&p.numbers.Pending, "pending", 0, "The active Jobs without a ready Pod")
	flags.Int64Var(&p.numbers.Claimed, "claimed", 0, "The active Jobs that count as having taken their messages, by default all that are not pending")
	flags.BoolVar(&p.numbers.Overdue, "overdue", false, "Messages have waited for maxWaitSeconds")
	flags.Int64Var(&p.spec.Threshold, "threshold", 1, "Replaces threshold")
	flags.Int64Var(&p.spec.ActivationThreshold, "activation-threshold", 0, "Replaces activationThreshold")
	flags.Int32Var(&p.spec.MinReplicas, "min-replicas", 0, "Replaces minReplicas")
	flags.Int32Var(&p.spec.SpareReplicas, "spare-replicas", 0, "Replaces spareReplicas")
	flags.Int32Var(&p.maxReplicas, "max-replicas", scaledjobv1.DefaultMaxReplicas, "Replaces maxReplicas")
	flags.Int32Var(&p.maxPending, "max-pending-replicas", 0, "Replaces maxPendingReplicas")
	flags.StringVar(&p.strategy, "scaling-strategy", "", "Replaces scalingStrategy.type: "+strings.Join(strategies, ", "))
	flags.StringVar(&p.calculation, "queues-calculation", "", "Replaces queuesCalculation: "+strings.Join(calculations, ", "))
	p.specFlags = map[string]func(*scaledjobv1.ScaledJobSpec){
		"threshold":            func(spec *scaledjobv1.ScaledJobSpec) { spec.Threshold = p.spec.Threshold },
		"activation-threshold": func(spec *scaledjobv1.ScaledJobSpec) { spec.ActivationThreshold = p.spec.ActivationThreshold },
		"min-replicas":         func(spec *scaledjobv1.ScaledJobSpec) { spec.MinReplicas = p.spec.MinReplicas },
		"spare-replicas":       func(spec *scaledjobv1.ScaledJobSpec) { spec.SpareReplicas = p.spec.SpareReplicas },
		"max-replicas":         func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxReplicas = &p.maxReplicas },
		"max-pending-replicas": func(spec *scaledjobv1.ScaledJobSpec) { spec.MaxPendingReplicas = &p.maxPending },
		"scaling-strategy": func(spec *scaledjobv1.ScaledJobSpec) {
			spec.ScalingStrategy.Type = scaledjobv1.ScalingStrategyType(p.strategy)
		},
		"queues-calculation": func(spec *scaledjobv1.ScaledJobSpec) {
			spec.QueuesCalculation = scaledjobv1.QueuesCalculation(p.calculation)
		},
	}
}

func (a *app) plan(ctx context.Context, p *planned, output *output, names []string) error {
	sj, err := a.scaledJobToPlan(ctx, p, names)
	if err != nil {
		return err
	}
	for flag, replace := range p.specFlags {
		if p.set(flag) {
			replace(&sj.Spec)
		}
	}
	if err := checkSpec(&sj.Spec); err != nil {
		return err
	}
	if p.numbers.Queues, err = depthsOf(sj, p.depths, p.reported); err != nil {
		return err
	}
	if err := p.countJobs(sj); err != nil {
		return err
	}
	plan := explain.PlanFor(sj, p.numbers)
	plan.APIVersion, plan.Kind = apiVersion, "Plan"
	if output.isData() {
		return output.write(a.Out, plan)
	}
	_, err = fmt.Fprint(a.Out, plan.Text(widthOf(a.Out)))
	return err
}

// scaledJobToPlan returns the ScaledJob of the file or of the cluster, or one with the keys of the flags. Only that of
// the cluster has a status.
func (a *app) scaledJobToPlan(ctx context.Context, p *planned, names []string) (*scaledjobv1.ScaledJob, error) {
	name := strings.Join(names, "")
	switch {
	case p.file != "":
		return a.scaledJobOfFile(ctx, p.file, name)
	case name != "":
		api, err := a.connect(a.flags)
		if err != nil {
			return nil, err
		}
		p.reported = true
		return api.get(ctx, api.namespace, name)
	case len(p.depths) == 0:
		return nil, say("Say what to plan for: the name of a ScaledJob, -f with a manifest, or --depth with the number of messages.")
	}
	sj := &scaledjobv1.ScaledJob{}
	sj.Spec.Threshold = 1
	for _, text := range p.depths {
		key, _ := cutLast(text)
		sj.Spec.Queues = append(sj.Spec.Queues, scaledjobv1.Queue{Name: cmp.Or(key, "queue")})
	}
	return sj, nil
}

// scaledJobOfFile returns the ScaledJob with this name, or the only one.
func (a *app) scaledJobOfFile(ctx context.Context, file, name string) (*scaledjobv1.ScaledJob, error) {
	content, err := a.readFile(ctx, file)
	if err != nil {
		return nil, err
	}
	objects, err := convert.Parse(file, content)
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(object convert.Object) bool {
		return object.Group() != scaledjobv1.GroupVersion.Group || object.Kind != scaledJobKind.Kind
	})
	var names []string
	for i := range objects {
		if objects[i].Name == name || name == "" && len(objects) == 1 {
			return parseScaledJob(&objects[i])
		}
		names = append(names, objects[i].Name)
	}
	list := strings.Join(names, ", ")
	switch {
	case len(names) == 0:
		return nil, say("There is no ScaledJob of %s in %s.", scaledjobv1.GroupVersion.Group, file)
	case name == "":
		return nil, say("There are %d ScaledJobs in %s. Name one of them: %s", len(names), file, list)
	}
	return nil, say("There is no ScaledJob %q in %s. %s", name, file, suggest(name, names, "The ScaledJobs are: "+list))
}

// parseScaledJob returns the ScaledJob of a manifest, without its status.
func parseScaledJob(object *convert.Object) (*scaledjobv1.ScaledJob, error) {
	manifest, err := object.YAML()
	if err != nil {
		return nil, err
	}
	sj := &scaledjobv1.ScaledJob{}
	if err := yaml.UnmarshalStrict(manifest, sj); err != nil {
		why := strings.TrimPrefix(layout.OneLine(err.Error()), "error unmarshaling JSON: while decoding JSON: json: ")
		return nil, say("%s is not a valid ScaledJob: %s.", object.Source, why)
	}
	sj.Status = scaledjobv1.ScaledJobStatus{}
	if sj.Spec.QueueName == "" && len(sj.Spec.Queues) == 0 {
		return nil, say("%s is not a valid ScaledJob: it needs queueName or queues.", object.Source)
	}
	return sj, nil
}

// checkSpec returns an error if the API server would not accept the fields that are computed with.
func checkSpec(spec *scaledjobv1.ScaledJobSpec) error {
	for _, each := range []struct {
		field, is string
		words     []string
	}{
		{"scaling strategy", string(spec.ScalingStrategy.Type), strategies},
		{"queues calculation", string(spec.QueuesCalculation), calculations},
	} {
		if each.is != "" && !slices.Contains(each.words, each.is) {
			return say("There is no %s %q. Use one of: %s", each.field, each.is, strings.Join(each.words, ", "))
		}
	}
	least := min(spec.ActivationThreshold, int64(spec.MinReplicas), int64(spec.SpareReplicas))
	for _, optional := range []*int32{spec.MaxReplicas, spec.MaxPendingReplicas} {
		if optional != nil {
			least = min(least, int64(*optional))
		}
	}
	if least < 0 {
		return say("The fields of a ScaledJob are not negative.")
	}
	for _, queue := range spec.AllQueues() {
		if *queue.Threshold < 1 {
			return say("The threshold of %s is %d, and has to be at least 1.", queue.Name, *queue.Threshold)
		}
	}
	return nil
}

// cutLast returns the key and the number of KEY=N. Keys may have a = too.
func cutLast(text string) (key, number string) {
	if i := strings.LastIndex(text, "="); i >= 0 {
		return text[:i], text[i+1:]
	}
	return "", text
}

// depthsOf returns the messages of each queue: those of the flags, else those of the status. Without a status, other
// queues are empty.
func depthsOf(sj *scaledjobv1.ScaledJob, flags []string, reported bool) ([]scaling.Queue, error) {
	queues := explain.QueuesOf(sj)
	depths, given := make([]scaling.Queue, len(queues)), make([]bool, len(queues))
	for _, flag := range flags {
		key, number := cutLast(flag)
		i, err := indexOf(queues, key, given)
		if err != nil {
			return nil, err
		}
		if depths[i], err = depthOf(&queues[i], number); err != nil {
			return nil, err
		}
		given[i] = true
	}
	for i := range queues {
		if given[i] {
			continue
		}
		if !reported {
			depths[i] = queues[i].Holding(0)
			continue
		}
		unknown := queues[i].ConsumerGroup != "" && queues[i].PendingEntries == nil
		if queues[i].Depth == nil || unknown && sj.Spec.ScalingStrategy.Type != "" && sj.Spec.ScalingStrategy.Type != scaledjobv1.StrategyDefault {
			return nil, say("The status does not say enough of %s. Add --depth %q.", queues[i].Name, queues[i].Name+"=N")
		}
		depths[i] = queues[i].Holding(*queues[i].Depth)
	}
	return depths, nil
}

// indexOf returns which queue a flag is for: the first with this key that has no depth yet.
func indexOf(queues []explain.Queue, key string, given []bool) (int, error) {
	var names []string
	for i := range queues {
		if (key == "" && len(queues) == 1 || queues[i].Name == key) && !given[i] {
			return i, nil
		}
		names = append(names, queues[i].Name)
	}
	list := strings.Join(names, ", ")
	switch {
	case slices.Contains(names, key) || len(queues) == 1 && key == "":
		return 0, say("There are too many numbers for %s.", cmp.Or(key, names[0]))
	case key == "":
		return 0, say("There are %d keys. Write --depth KEY=N for each: %s", len(names), list)
	}
	return 0, say("There is no key %q. %s", key, suggest(key, names, "The keys are: "+list))
}

// depthOf parses N, or N+M.
func depthOf(queue *explain.Queue, text string) (scaling.Queue, error) {
	waiting, pending, both := strings.Cut(text, "+")
	n, err := strconv.ParseInt(waiting, 10, 64)
	switch {
	case err != nil || n < 0:
		return scaling.Queue{}, say("%q is not a number of messages. Write --depth N or --depth KEY=N.", text)
	case !both:
		queue.PendingEntries = nil // They are of the reported depth.
		return queue.Holding(n), nil
	case queue.ConsumerGroup == "":
		return scaling.Queue{}, say("Only a stream with a consumer group has waiting and pending entries: write --depth %q.", queue.Name+"=N")
	}
	m, err := strconv.ParseInt(pending, 10, 64)
	if err != nil || m < 0 {
		return scaling.Queue{}, say("%q is not a number of entries. Write --depth %q.", text, queue.Name+"=N+M")
	}
	return scaling.Queue{Waiting: n, InProgress: m, Threshold: queue.Threshold}, nil
}

// countJobs takes the numbers of Jobs that no flag gives from the status.
func (p *planned) countJobs(sj *scaledjobv1.ScaledJob) error {
	n := &p.numbers
	if !p.set("active") {
		n.Active = max(int64(sj.Status.ActiveJobs), n.Pending+n.Claimed)
	}
	if !p.set("pending") {
		n.Pending = min(int64(sj.Status.PendingJobs), n.Active)
	}
	if !p.set("claimed") {
		n.Claimed = max(0, n.Active-n.Pending)
	}
	switch {
	case min(n.Active, n.Pending, n.Claimed) < 0 || n.Active > math.MaxInt32:
		return say("Numbers of Jobs are from 0 to %d.", math.MaxInt32)
	case n.Pending+n.Claimed > n.Active:
		return say("Of %d active Jobs, %d can't be pending and %d claimed.", n.Active, n.Pending, n.Claimed)
	}
	return nil
}
