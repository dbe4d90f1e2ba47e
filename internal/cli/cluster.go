// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
)

// requestTimeout bounds a request to the API server, unless --request-timeout is set.
const requestTimeout = 30 * time.Second

// cluster is the API server with the permissions of the user.
type cluster struct {
	client.Client

	// namespace is that of --namespace or of the context.
	namespace string
	config    *rest.Config
}

// connect makes a client. It sends no request.
func connect(flags *genericclioptions.ConfigFlags) (*cluster, error) {
	loader := flags.ToRawKubeConfigLoader()
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, unusable(err)
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, unusable(err)
	}
	config.WarningHandlerWithContext = warningHandler{}
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, register := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, batchv1.AddToScheme, appsv1.AddToScheme, authorizationv1.AddToScheme, coordinationv1.AddToScheme,
	} {
		if err := register(scheme); err != nil {
			return nil, err
		}
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	return &cluster{Client: api, namespace: namespace, config: config}, nil
}

// unusable returns the error of a kubeconfig.
func unusable(err error) error {
	if clientcmd.IsEmptyConfig(err) {
		return say(noCluster)
	}
	why := strings.TrimPrefix(layout.OneLine(err.Error()), "invalid configuration: ")
	return say("The kubeconfig can't be used: %s. Check --kubeconfig and --context.", strings.TrimSuffix(why, "."))
}

// scaledJobKind is the kind of ScaledJobs.
var scaledJobKind = scaledjobv1.GroupVersion.WithKind("ScaledJob")

// get returns a ScaledJob. The error for one that does not exist names the nearest one.
func (c *cluster) get(ctx context.Context, namespace, name string) (*scaledjobv1.ScaledJob, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(scaledJobKind)
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		all, listErr := c.list(ctx, namespace, labels.Everything())
		if listErr != nil {
			return nil, notFound(namespace, name, []string{""})
		}
		names := make([]string, len(all))
		for i := range all {
			names[i] = all[i].Name
		}
		return nil, notFound(namespace, name, names)
	}
	if err != nil {
		return nil, err
	}
	return decode(object)
}

// list returns the ScaledJobs of a namespace, or of all if it is empty, by namespace and name.
func (c *cluster) list(ctx context.Context, namespace string, selector labels.Selector) ([]scaledjobv1.ScaledJob, error) {
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJobList"))
	if err := c.List(ctx, objects, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, err
	}
	all := make([]scaledjobv1.ScaledJob, 0, len(objects.Items))
	for i := range objects.Items {
		decoded, err := decode(&objects.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, *decoded)
	}
	slices.SortFunc(all, func(a, b scaledjobv1.ScaledJob) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return all, nil
}

// listKind returns the objects of a kind in a namespace, in the version that the cluster prefers; none if it has no
// such kind.
func (c *cluster) listKind(ctx context.Context, kind schema.GroupKind, namespace string) ([]unstructured.Unstructured, error) {
	mapping, err := c.RESTMapper().RESTMapping(kind)
	if apimeta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(kind.Kind + "List"))
	err = c.List(ctx, objects, client.InNamespace(namespace))
	return objects.Items, err
}

// surroundings are the Jobs and Pods of a ScaledJob, and the quotas of its namespace.
type surroundings struct {
	jobs   []*batchv1.Job
	pods   []*corev1.Pod
	quotas []corev1.ResourceQuota
	// forbidden are those of them that the user may not list.
	forbidden map[string]bool
}

// The words for what surrounds a ScaledJob.
const (
	theJobs   = "Jobs"
	thePods   = "Pods"
	theQuotas = "quotas"
)

// surroundings reads what surrounds a ScaledJob, as far as the user may.
func (c *cluster) surroundings(ctx context.Context, sj *scaledjobv1.ScaledJob) (surroundings, error) {
	var list batchv1.JobList
	var pods corev1.PodList
	var quotas corev1.ResourceQuotaList
	own := client.MatchingLabels{scaledjobv1.LabelScaledJob: sj.Name}
	found := surroundings{forbidden: map[string]bool{}}
	for _, read := range []struct {
		what    string
		list    client.ObjectList
		options []client.ListOption
	}{
		{theJobs, &list, []client.ListOption{own}},
		{thePods, &pods, []client.ListOption{own}},
		{theQuotas, &quotas, nil},
	} {
		err := c.List(ctx, read.list, append(read.options, client.InNamespace(sj.Namespace))...)
		if found.forbidden[read.what] = apierrors.IsForbidden(err); err != nil && !found.forbidden[read.what] {
			return surroundings{}, err
		}
	}
	found.jobs, found.pods, found.quotas = pointers(list.Items), pointers(pods.Items), quotas.Items
	return found, nil
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

// decode converts a ScaledJob as it is stored. One that another CRD has accepted may have fields of other types: a part
// that can't be read is left out, so that it does not keep the others, and other ScaledJobs, from being shown.
func decode(object *unstructured.Unstructured) (*scaledjobv1.ScaledJob, error) {
	var err error
	for _, parts := range [][]string{nil, {"status"}, {"spec"}, {"spec", "status"}} {
		sj, readable := &scaledjobv1.ScaledJob{}, object.DeepCopy()
		for _, part := range parts {
			unstructured.RemoveNestedField(readable.Object, part)
		}
		if err = runtime.DefaultUnstructuredConverter.FromUnstructured(readable.Object, sj); err == nil {
			return sj, nil
		}
	}
	return nil, fmt.Errorf("the ScaledJob %s in namespace %s can't be read: %w", object.GetName(), object.GetNamespace(), err)
}

// suspend sets spec.suspend of a ScaledJob.
func (c *cluster) suspend(ctx context.Context, sj *scaledjobv1.ScaledJob, suspended bool) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(scaledJobKind)
	object.SetNamespace(sj.Namespace)
	object.SetName(sj.Name)
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, suspended))
	return c.Patch(ctx, object, patch, client.FieldOwner(fieldOwner))
}

// fieldOwner is the field manager of what the commands change.
const fieldOwner = "kubectl-scaledjob"

// ageOf returns how long ago a time was, as kubectl writes it.
func ageOf(at metav1.Time, now time.Time) string {
	if at.IsZero() {
		return layout.Unknown
	}
	return short(now.Sub(at.Time))
}
