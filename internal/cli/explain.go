// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/explain"
	"miracle.dev/scaledjob-operator/internal/cli/observe"
)

func (a *app) explainCommand() *cobra.Command {
	var output output
	var from fromRedis
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Say why a ScaledJob has as many Jobs as it has",
		Long: "Say why a ScaledJob has as many Jobs as it has: its messages, its Jobs by state, the arithmetic from the one to the other,\n" +
			"what holds Jobs back, what would change it, and when the operator looks next.\n\n" +
			"The numbers of messages are those of the last report of the operator, or with --live those in Redis. Jobs, Pods, quotas, events,\n" +
			"and the Workloads of Kueue are read now, with your own permissions. What you may not read is listed.",
		Args: func(_ *cobra.Command, names []string) error {
			if len(names) != 1 {
				return say("Name one ScaledJob: kubectl scaledjob explain NAME")
			}
			return nil
		},
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := output.check(); err != nil {
				return err
			}
			if from.address != "" && !from.wanted {
				return say("--redis-address is for --live.")
			}
			return a.explain(cmd.Context(), &output, &from, names[0])
		},
	}
	output.add(cmd, formatJSON, formatYAML)
	cmd.Flags().BoolVar(&from.wanted, "live", false, "Read the messages from Redis now, with the Secrets that you may read")
	cmd.Flags().StringVar(&from.address, "redis-address", "", "With --live: the address of the server from here, such as that of kubectl port-forward")
	return cmd
}

// fromRedis says whether messages are read from Redis.
type fromRedis struct {
	wanted bool
	// address replaces those of the spec; empty if these can be reached.
	address string
}

// read adds the messages as Redis has them, or why they can't be read.
func (f *fromRedis) read(ctx context.Context, api *cluster, facts *explain.Facts) {
	sj := facts.ScaledJob.DeepCopy()
	if f.address != "" && sj.Spec.Redis == nil {
		sj.Spec.RedisAddress = f.address
	} else if f.address != "" {
		sj.Spec.Redis.Mode, sj.Spec.Redis.Addresses, sj.Spec.Redis.Sentinel = scaledjobv1.RedisStandalone, []string{f.address}, nil
	}
	var why string
	if facts.Live, why = observe.Queues(ctx, api, sj); why != "" {
		facts.Unreadable = append(facts.Unreadable, "Redis, so the messages are those of the status: "+why+" If only Pods can reach the address, use "+
			"kubectl port-forward and --redis-address.")
	}
}

func (a *app) explain(ctx context.Context, output *output, from *fromRedis, name string) error {
	api, err := a.connect(a.flags)
	if err != nil {
		return err
	}
	sj, err := api.get(ctx, api.namespace, name)
	if err != nil {
		return err
	}
	facts, err := api.facts(ctx, sj)
	if err != nil {
		return err
	}
	if from.wanted {
		from.read(ctx, api, &facts)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	facts.Now = a.now()
	explanation := explain.Explain(facts)
	explanation.APIVersion, explanation.Kind = apiVersion, "Explanation"
	if output.isData() {
		return output.write(a.Out, explanation)
	}
	_, err = fmt.Fprint(a.Out, printable(explanation.Text(widthOf(a.Out))))
	return err
}

// maxEvents is the number of events that are read at most.
const maxEvents = 500

// facts reads what an explanation is made of. What the user may not read is noted.
func (c *cluster) facts(ctx context.Context, sj *scaledjobv1.ScaledJob) (explain.Facts, error) {
	facts := explain.Facts{ScaledJob: sj}
	var list batchv1.JobList
	var pods corev1.PodList
	var quotas corev1.ResourceQuotaList
	var events corev1.EventList
	own := client.MatchingLabels{scaledjobv1.LabelScaledJob: sj.Name}
	warnings := client.MatchingFieldsSelector{Selector: fields.SelectorFromSet(fields.Set{"involvedObject.kind": "Job", "type": corev1.EventTypeWarning})}
	for _, read := range []struct {
		list    client.ObjectList
		options []client.ListOption
		what    string
		known   *bool
	}{
		{&list, []client.ListOption{own}, "Jobs: the numbers are those of the status", &facts.JobsKnown},
		{&pods, []client.ListOption{own}, "Pods: it is not known what they wait for", &facts.PodsKnown},
		{&quotas, nil, "quotas: one may be used up", nil},
		{&events, []client.ListOption{warnings, client.Limit(maxEvents)}, "events: they would say why a Job has no Pod", nil},
	} {
		err := c.List(ctx, read.list, append(read.options, client.InNamespace(sj.Namespace))...)
		switch {
		case apierrors.IsForbidden(err):
			facts.Unreadable = append(facts.Unreadable, "You may not list "+read.what+".")
		case err != nil:
			return explain.Facts{}, err
		case read.known != nil:
			*read.known = true
		}
	}
	for i := range list.Items {
		facts.Jobs = append(facts.Jobs, &list.Items[i])
	}
	for i := range pods.Items {
		facts.Pods = append(facts.Pods, &pods.Items[i])
	}
	facts.Quotas, facts.Events = quotas.Items, events.Items
	return facts, c.addWorkloads(ctx, &facts)
}

// workloadKind is the kind of Kueue's Workloads, in the version that the cluster prefers.
var workloadKind = schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "Workload"}

// addWorkloads reads the Workloads of Kueue, if there is Kueue and a Job that it may have suspended.
func (c *cluster) addWorkloads(ctx context.Context, facts *explain.Facts) error {
	if !anySuspended(facts.Jobs) {
		return nil
	}
	mapping, err := c.RESTMapper().RESTMapping(workloadKind)
	if apimeta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	workloads := &unstructured.UnstructuredList{}
	workloads.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind("WorkloadList"))
	err = c.List(ctx, workloads, client.InNamespace(facts.ScaledJob.Namespace))
	if apierrors.IsForbidden(err) {
		facts.Unreadable = append(facts.Unreadable, "You may not list workloads of Kueue: they would say why Jobs are suspended.")
		return nil
	}
	for i := range workloads.Items {
		facts.Workloads = append(facts.Workloads, workloadOf(&workloads.Items[i]))
	}
	return err
}

func anySuspended(list []*batchv1.Job) bool {
	for _, job := range list {
		if job.Spec.Suspend != nil && *job.Spec.Suspend {
			return true
		}
	}
	return false
}

// workloadOf returns which Job a Workload is of, and why it is not admitted.
func workloadOf(object *unstructured.Unstructured) explain.Workload {
	var workload explain.Workload
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == "Job" {
			workload.Job = owner.Name
		}
	}
	if active, found, _ := unstructured.NestedBool(object.Object, "spec", "active"); found && !active {
		workload.Message = "The Workload was deactivated. Delete the Job to get another one."
		return workload
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		is, _ := each.(map[string]any)
		if is["status"] == "False" && (is["type"] == "QuotaReserved" || is["type"] == "Admitted") {
			message, _ := is["message"].(string)
			workload.Message = strings.TrimSpace(message)
		}
	}
	if len(conditions) == 0 {
		workload.Message = "The Workload was not considered yet. Its LocalQueue may not exist, or may be stopped."
	}
	return workload
}
