// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/explain"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
)

// StatusList is the output of status for programs.
type StatusList struct {
	metav1.TypeMeta `json:",inline"`

	Items []Status `json:"items"`
}

// Status is what a ScaledJob says of itself.
type Status struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Current is false while the operator has not seen the last edit of the spec, so that the rest may belong to an
	// earlier one.
	Current bool `json:"current"`
	Suspend bool `json:"suspend"`
	// Queues are the keys, and Depth is the number of outstanding messages in all of them; absent while it is not known.
	Queues []explain.Queue `json:"queues"`
	Depth  *int64          `json:"depth,omitempty"`
	// DesiredJobs is absent while it is not known.
	DesiredJobs   *int32 `json:"desiredJobs,omitempty"`
	ActiveJobs    int32  `json:"activeJobs"`
	PendingJobs   int32  `json:"pendingJobs"`
	SuspendedJobs int32  `json:"suspendedJobs"`
	SucceededJobs int32  `json:"succeededJobs"`
	FailedJobs    int32  `json:"failedJobs"`
	MinReplicas   int32  `json:"minReplicas"`
	SpareReplicas int32  `json:"spareReplicas"`
	MaxReplicas   int32  `json:"maxReplicas"`
	// Mode is Events, Tracking or Polling; absent while it is not known.
	Mode string `json:"mode,omitempty"`
	// Ready is True, False or Unknown, with the reason and the message of that condition.
	Ready        string `json:"ready"`
	ReadyReason  string `json:"readyReason,omitempty"`
	ReadyMessage string `json:"readyMessage,omitempty"`
	// Limited is the reason for which fewer Jobs are created, or run, than are due; absent if there is none.
	Limited        string `json:"limited,omitempty"`
	LimitedMessage string `json:"limitedMessage,omitempty"`
	// LastScaleTime is when the operator last created a Job, and CreationPausedUntil when the next one may be created.
	LastScaleTime       *metav1.Time `json:"lastScaleTime,omitempty"`
	CreationPausedUntil *metav1.Time `json:"creationPausedUntil,omitempty"`
}

// newStatus returns the status of a ScaledJob.
func newStatus(sj *scaledjobv1.ScaledJob) Status {
	is := Status{
		Namespace: sj.Namespace, Name: sj.Name, Current: sj.Status.ObservedGeneration == sj.Generation, Suspend: sj.Spec.Suspend,
		Queues: explain.QueuesOf(sj), Depth: sj.Status.QueueDepth, DesiredJobs: sj.Status.DesiredJobs,
		ActiveJobs: sj.Status.ActiveJobs, PendingJobs: sj.Status.PendingJobs, SuspendedJobs: sj.Status.SuspendedJobs,
		SucceededJobs: sj.Status.SucceededJobs, FailedJobs: sj.Status.FailedJobs,
		MinReplicas: sj.Spec.MinReplicas, SpareReplicas: sj.Spec.SpareReplicas, MaxReplicas: sj.Spec.MaxReplicasOrDefault(),
		Mode: string(sj.Status.Mode), Ready: string(metav1.ConditionUnknown),
		LastScaleTime: sj.Status.LastScaleTime, CreationPausedUntil: sj.Status.CreationPausedUntil,
	}
	if ready := apimeta.FindStatusCondition(sj.Status.Conditions, scaledjobv1.ConditionReady); ready != nil {
		is.Ready, is.ReadyReason, is.ReadyMessage = string(ready.Status), ready.Reason, ready.Message
	}
	limited := apimeta.FindStatusCondition(sj.Status.Conditions, scaledjobv1.ConditionScalingLimited)
	if limited != nil && limited.Status == metav1.ConditionTrue {
		is.Limited, is.LimitedMessage = limited.Reason, limited.Message
	}
	return is
}

func (a *app) statusCommand() *cobra.Command {
	var scope scope
	var output output
	cmd := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Show the messages and Jobs of ScaledJobs",
		Long: "Show the messages and Jobs of ScaledJobs, as the operator last reported them. With a name, also what their conditions say.\n" +
			"To see why there are as many Jobs as there are, use explain.",
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := output.check(); err != nil {
				return err
			}
			return a.status(cmd.Context(), &scope, &output, names)
		},
	}
	scope.add(cmd)
	output.add(cmd, formatWide, formatJSON, formatYAML)
	return cmd
}

func (a *app) status(ctx context.Context, scope *scope, output *output, names []string) error {
	api, err := a.connect(a.flags)
	if err != nil {
		return err
	}
	all, err := a.choose(ctx, api, scope, names)
	if err != nil {
		return err
	}
	if err := a.printStatuses(all, scope, output, api.namespace); err != nil || len(all) == 0 || output.isData() || len(names) == 0 {
		return err
	}
	return a.writeConditions(all)
}

// printStatuses prints ScaledJobs in their order.
func (a *app) printStatuses(all []scaledjobv1.ScaledJob, scope *scope, output *output, namespace string) error {
	if output.isData() {
		list := StatusList{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "StatusList"}, Items: []Status{}}
		for i := range all {
			list.Items = append(list.Items, newStatus(&all[i]))
		}
		return output.write(a.Out, list)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.ErrOut, nothingFound(scope, namespace))
		return err
	}
	_, err := fmt.Fprint(a.Out, layout.Table("", a.statusRows(all, scope.allNamespaces, output.format == formatWide)))
	return err
}

// nothingFound says that there are no such ScaledJobs.
func nothingFound(scope *scope, namespace string) string {
	text := "There are no ScaledJobs"
	if scope.selector != "" {
		text += " with these labels"
	}
	if !scope.allNamespaces {
		text += fmt.Sprintf(" in namespace %q", namespace)
	}
	return text + "."
}

// choose returns the ScaledJobs with these names, or those that the flags select.
func (a *app) choose(ctx context.Context, api *cluster, scope *scope, names []string) ([]scaledjobv1.ScaledJob, error) {
	selector, err := scope.labels()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return api.list(ctx, scope.namespace(api), selector)
	}
	if scope.selector != "" || scope.allNamespaces {
		return nil, say("Use either names, or -l and -A.")
	}
	var all []scaledjobv1.ScaledJob
	for _, name := range names {
		sj, err := api.get(ctx, api.namespace, name)
		if err != nil {
			return nil, err
		}
		all = append(all, *sj)
	}
	return all, nil
}

// statusRows returns the table of ScaledJobs.
func (a *app) statusRows(all []scaledjobv1.ScaledJob, namespaces, wide bool) [][]string {
	header := []string{"NAME", "QUEUE", "DEPTH", "ACTIVE", "PENDING", "DESIRED", "MAX", "MODE", "READY", "LIMITED", "AGE"}
	if namespaces {
		header = append([]string{"NAMESPACE"}, header...)
	}
	if wide {
		header = append(header, "SUSPENDED", "SUCCEEDED", "FAILED", "MIN", "SPARE", "LAST JOB", "CURRENT")
	}
	rows := [][]string{header}
	for i := range all {
		rows = append(rows, a.statusRow(&all[i], namespaces, wide))
	}
	return rows
}

func (a *app) statusRow(sj *scaledjobv1.ScaledJob, namespaces, wide bool) []string {
	is := newStatus(sj)
	row := []string{
		is.Name, queueNames(is.Queues), number(is.Depth), count(is.ActiveJobs), count(is.PendingJobs), number(is.DesiredJobs),
		count(is.MaxReplicas), orUnknown(is.Mode), is.Ready, orUnknown(is.Limited), ageOf(sj.CreationTimestamp, a.now()),
	}
	if namespaces {
		row = append([]string{is.Namespace}, row...)
	}
	if wide {
		last := layout.Unknown
		if is.LastScaleTime != nil {
			last = ageOf(*is.LastScaleTime, a.now())
		}
		row = append(row, count(is.SuspendedJobs), count(is.SucceededJobs), count(is.FailedJobs), count(is.MinReplicas),
			count(is.SpareReplicas), last, strconv.FormatBool(is.Current))
	}
	return row
}

// queueNames returns the first key and the number of the others.
func queueNames(queues []explain.Queue) string {
	name := strings.ToValidUTF8(queues[0].Name, "?")
	if len(queues) > 1 {
		return fmt.Sprintf("%s, +%d", name, len(queues)-1)
	}
	return name
}

func count(n int32) string { return strconv.FormatInt(int64(n), 10) }

func orUnknown(text string) string {
	if text == "" {
		return layout.Unknown
	}
	return text
}

// writeConditions writes what the conditions say, with the name of the ScaledJob if there are several.
func (a *app) writeConditions(all []scaledjobv1.ScaledJob) error {
	width := widthOf(a.Out)
	for i := range all {
		var text strings.Builder
		text.WriteByte('\n')
		if len(all) > 1 {
			text.WriteString(all[i].Name + ":\n")
		}
		if len(all[i].Status.Conditions) == 0 {
			text.WriteString(layout.Hanging("", "The operator has not reported anything yet. Is it running, and does it watch this namespace?", width))
		}
		for _, is := range all[i].Status.Conditions {
			fmt.Fprintf(&text, "%s is %s: %s\n%s", is.Type, is.Status, is.Reason, layout.Hanging(layout.Indent, is.Message, width))
		}
		if _, err := fmt.Fprint(a.Out, text.String()); err != nil {
			return err
		}
	}
	return nil
}
