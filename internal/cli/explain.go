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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/explain"
)

func (a *app) explainCommand() *cobra.Command {
	var output output
	var how inquiry
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
			if how.address != "" && !how.live {
				return say("--redis-address is for --live.")
			}
			if err := how.check(); err != nil {
				return err
			}
			return a.explain(cmd.Context(), &output, &how, names[0])
		},
	}
	output.add(cmd, formatJSON, formatYAML)
	cmd.Flags().BoolVar(&how.live, "live", false, "Read the messages from Redis now, with the Secrets that you may read")
	how.addAddress(cmd)
	return cmd
}

func (a *app) explain(ctx context.Context, output *output, how *inquiry, name string) error {
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
	if how.live {
		how.readMessages(ctx, api, &facts)
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
	_, err = fmt.Fprint(a.Out, explanation.Text(widthOf(a.Out)))
	return err
}

// maxEvents is the number of events that are read at most.
const maxEvents = 500

// facts reads what an explanation is made of. What the user may not read is noted.
func (c *cluster) facts(ctx context.Context, sj *scaledjobv1.ScaledJob) (explain.Facts, error) {
	around, err := c.surroundings(ctx, sj)
	if err != nil {
		return explain.Facts{}, err
	}
	facts := explain.Facts{
		ScaledJob: sj, Jobs: around.jobs, Pods: around.pods, Quotas: around.quotas,
		JobsKnown: !around.forbidden[theJobs], PodsKnown: !around.forbidden[thePods],
	}
	for _, each := range []struct{ what, so string }{
		{theJobs, "the numbers are those of the status"}, {thePods, "it is not known what they wait for"}, {theQuotas, "one may be used up"},
	} {
		if around.forbidden[each.what] {
			facts.Unreadable = append(facts.Unreadable, fmt.Sprintf("You may not list %s: %s.", each.what, each.so))
		}
	}
	if err := c.addEvents(ctx, &facts); err != nil {
		return explain.Facts{}, err
	}
	return facts, c.addWorkloads(ctx, &facts)
}

// addEvents reads the warnings about Jobs.
func (c *cluster) addEvents(ctx context.Context, facts *explain.Facts) error {
	var events corev1.EventList
	warnings := fields.SelectorFromSet(fields.Set{"involvedObject.kind": "Job", "type": corev1.EventTypeWarning})
	err := c.List(ctx, &events, client.MatchingFieldsSelector{Selector: warnings}, client.Limit(maxEvents), client.InNamespace(facts.ScaledJob.Namespace))
	if apierrors.IsForbidden(err) {
		facts.Unreadable = append(facts.Unreadable, "You may not list events: they would say why a Job has no Pod.")
		return nil
	}
	facts.Events = events.Items
	return err
}

// workloadKind is the kind of Kueue's Workloads, in the version that the cluster prefers.
var workloadKind = schema.GroupKind{Group: "kueue.x-k8s.io", Kind: "Workload"}

// addWorkloads reads the Workloads of Kueue, if there is Kueue and a Job that it may have suspended.
func (c *cluster) addWorkloads(ctx context.Context, facts *explain.Facts) error {
	if !anySuspended(facts.Jobs) {
		return nil
	}
	workloads, err := c.listKind(ctx, workloadKind, facts.ScaledJob.Namespace)
	if apierrors.IsForbidden(err) {
		facts.Unreadable = append(facts.Unreadable, "You may not list workloads of Kueue: they would say why Jobs are suspended.")
		return nil
	}
	for i := range workloads {
		facts.Workloads = append(facts.Workloads, workloadOf(&workloads[i]))
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
