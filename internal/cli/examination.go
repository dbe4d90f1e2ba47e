// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/doctor"
)

// readScaledJob reads the ScaledJob and all that belongs to it. Without a CRD there is none.
func (e *examination) readScaledJob(ctx context.Context, how *inquiry, name string) error {
	if !e.facts.CRD.Served {
		return nil
	}
	sj, err := e.get(ctx, e.facts.Namespace, name)
	if err != nil {
		return err
	}
	e.facts.ScaledJob = sj
	for _, step := range []func(context.Context) error{e.readOthers, e.dryRun, e.readReferences, e.readObjects, e.readKEDA} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return e.readRedis(ctx, how)
}

// readOthers reads the other ScaledJobs: of all namespaces, or if the user may not do that, of this one.
func (e *examination) readOthers(ctx context.Context) error {
	all, err := e.list(ctx, "", labels.Everything())
	if apierrors.IsForbidden(err) {
		all, err = e.list(ctx, e.facts.Namespace, labels.Everything())
	}
	if apierrors.IsForbidden(err) {
		return nil // The result says that it is about those that the user may see.
	}
	e.facts.Others = slices.DeleteFunc(all, func(is scaledjobv1.ScaledJob) bool { return is.UID == e.facts.ScaledJob.UID })
	return err
}

// dryRun asks the API server whether it accepts a Job, and a Pod of it. PodSecurity, ServiceAccounts and quotas for
// Pods only show in the answer about the Pod.
func (e *examination) dryRun(ctx context.Context) error {
	if e.facts.ScaledJob.Spec.JobTemplate == nil {
		e.facts.Missing[doctor.NeedJobDryRun] = "The ScaledJob has no template that can be read."
		e.facts.Missing[doctor.NeedPodDryRun] = e.facts.Missing[doctor.NeedJobDryRun]
		return nil
	}
	job := doctor.JobOf(e.facts.ScaledJob)
	for _, each := range []struct {
		object client.Object
		need   doctor.Need
		what   string
		answer *doctor.DryRun
	}{
		{doctor.PodOf(job), doctor.NeedPodDryRun, "pods", &e.facts.Pod},
		{job, doctor.NeedJobDryRun, "jobs", &e.facts.Job},
	} {
		ctx, collected := withWarnings(ctx)
		err := e.Create(ctx, each.object, client.DryRunAll)
		status, answered := err.(apierrors.APIStatus) // The client does not wrap the answers of the API server.
		switch {
		case err != nil && !answered:
			return err
		case apierrors.IsForbidden(err) && lacksRight(status.Status().Message, each.what):
			e.facts.Missing[each.need] = "You may not create " + each.what + " in the namespace, not even in a dry run."
		}
		*each.answer = doctor.DryRun{Err: err, Warnings: collected.all()}
	}
	return nil
}

// lacksRight reports whether the API server forbids a create because of the permissions of the user, and not because of
// what is created.
func lacksRight(message, resource string) bool {
	return strings.Contains(message, `cannot create resource "`+resource+`"`) || strings.Contains(message, "cannot set blockOwnerDeletion")
}

// readReferences finds out whether the objects exist that the ScaledJob needs.
func (e *examination) readReferences(ctx context.Context) error {
	e.facts.References = doctor.ReferencesOf(e.facts.ScaledJob)
	for i := range e.facts.References {
		is := &e.facts.References[i]
		object, keys, err := e.object(is.Kind)
		if err == nil {
			err = e.Get(ctx, client.ObjectKey{Namespace: e.facts.Namespace, Name: is.Name}, object)
		}
		switch {
		case apimeta.IsNoMatchError(err):
			is.State = doctor.NoKind
		case apierrors.IsNotFound(err):
			is.State = doctor.Absent
		case apierrors.IsForbidden(err):
			is.State = doctor.Unreadable
		case err != nil:
			return err
		case is.Key != "" && !slices.Contains(keys(), is.Key):
			is.State = doctor.LacksKey
		}
	}
	return nil
}

// object returns an object of the kind to read into, and what returns its keys then.
func (e *examination) object(kind string) (object client.Object, keys func() []string, err error) {
	none := func() []string { return nil }
	switch kind {
	case doctor.KindServiceAccount:
		return &corev1.ServiceAccount{}, none, nil
	case doctor.KindVolumeClaim:
		return &corev1.PersistentVolumeClaim{}, none, nil
	case doctor.KindSecret:
		secret := &corev1.Secret{}
		return secret, func() []string { return slices.Collect(maps.Keys(secret.Data)) }, nil
	case doctor.KindConfigMap:
		config := &corev1.ConfigMap{}
		return config, func() []string {
			return slices.AppendSeq(slices.Collect(maps.Keys(config.Data)), maps.Keys(config.BinaryData))
		}, nil
	}
	mapping, err := e.RESTMapper().RESTMapping(schema.GroupKind{Group: workloadKind.Group, Kind: kind})
	if err != nil {
		return nil, none, err
	}
	other := &unstructured.Unstructured{}
	other.SetGroupVersionKind(mapping.GroupVersionKind)
	return other, none, nil
}

// readObjects reads the quotas, Jobs and Pods.
func (e *examination) readObjects(ctx context.Context) error {
	around, err := e.surroundings(ctx, e.facts.ScaledJob)
	if err != nil {
		return err
	}
	for what, need := range map[string]doctor.Need{theJobs: doctor.NeedJobs, thePods: doctor.NeedPods, theQuotas: doctor.NeedQuotas} {
		if around.forbidden[what] {
			e.facts.Missing[need] = "You may not list " + what + "."
		}
	}
	e.facts.Jobs, e.facts.Pods, e.facts.Quotas = around.jobs, around.pods, around.quotas
	doctor.Newest(e.facts.Pods)
	return nil
}

// readKEDA reads the scalers of KEDA in the namespace. Without KEDA there are none.
func (e *examination) readKEDA(ctx context.Context) error {
	for _, kind := range []string{kedaScaledJob.Kind, "ScaledObject"} {
		objects, err := e.listKind(ctx, schema.GroupKind{Group: kedaScaledJob.Group, Kind: kind}, e.facts.Namespace)
		if err != nil {
			return e.note(doctor.NeedKEDA, "list the "+kind+"s of KEDA", err)
		}
		for i := range objects {
			e.facts.KEDA = append(e.facts.KEDA, scalerOf(&objects[i]))
		}
	}
	return nil
}

// scalerOf returns by which keys a scaler of KEDA scales.
func scalerOf(object *unstructured.Unstructured) doctor.KEDA {
	const paused = "autoscaling.keda.sh/paused"
	is := doctor.KEDA{Kind: object.GetKind(), Name: object.GetName()}
	value, set := object.GetAnnotations()[paused]
	is.Paused = set && value != "false"
	triggers, _, _ := unstructured.NestedSlice(object.Object, "spec", "triggers")
	for _, each := range triggers {
		trigger, _ := each.(map[string]any)
		for _, field := range []string{"listName", "stream"} {
			if key, found, _ := unstructured.NestedString(trigger, "metadata", field); found {
				is.Keys = append(is.Keys, key)
			}
		}
	}
	return is
}

// warnings are those of the API server about requests with one context.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

type warningsKey struct{}

func withWarnings(ctx context.Context) (context.Context, *warnings) {
	collected := &warnings{}
	return context.WithValue(ctx, warningsKey{}, collected), collected
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.texts)
}

// warningHandler hands warnings to the context of the request. Without one that wants them, they are dropped: the
// commands print what the objects say themselves.
type warningHandler struct{}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (warningHandler) HandleWarningHeaderWithContext(ctx context.Context, _ int, _, text string) {
	if collected, wanted := ctx.Value(warningsKey{}).(*warnings); wanted && text != "" {
		collected.mu.Lock()
		defer collected.mu.Unlock()
		collected.texts = append(collected.texts, text)
	}
}
