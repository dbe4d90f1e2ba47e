// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/doctor"
	"miracle.dev/scaledjob-operator/internal/preflight"
)

// examination reads the facts for doctor. What the user may not read is noted, so that the rest can be checked.
type examination struct {
	*cluster

	facts doctor.Facts
}

// note notes that something can't be read because of missing permissions, or because it does not exist. It returns all
// other errors.
func (e *examination) note(need doctor.Need, what string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		e.facts.Missing[need] = "You may not " + what + "."
		return nil
	case apierrors.IsNotFound(err):
		e.facts.Missing[need] = "The API server has no such resource, so nobody can " + what + "."
		return nil
	}
	return err
}

// read reads the facts about the installation and the named ScaledJob.
func (e *examination) read(ctx context.Context, how *inquiry, names []string) error {
	steps := []func(context.Context) error{e.readCRD, e.readOperators}
	if len(names) > 0 {
		steps = append(steps, func(ctx context.Context) error { return e.readScaledJob(ctx, how, names[0]) })
	}
	for _, step := range append(steps, e.readRights, e.readOperatorRights) {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *examination) readCRD(ctx context.Context) error {
	switch _, err := e.RESTMapper().RESTMapping(scaledJobKind.GroupKind(), scaledJobKind.Version); {
	case apimeta.IsNoMatchError(err):
		e.facts.Missing[doctor.NeedSchema] = "There is no CRD to compare."
		return nil
	case err != nil:
		return err
	}
	e.facts.CRD.Served = true
	api, err := discovery.NewDiscoveryClientForConfig(e.config)
	if err != nil {
		return err
	}
	document, err := preflight.ReadSchemas(ctx, api.RESTClient())
	if err != nil {
		return e.note(doctor.NeedSchema, "read the schema of ScaledJobs", err)
	}
	e.facts.CRD.Fields, err = preflight.CompareFields(document)
	if errors.Is(err, preflight.ErrNotPublished) {
		e.facts.Missing[doctor.NeedSchema] = "The API server has not published the schema of ScaledJobs yet."
		return nil
	}
	return err
}

// readOperators reads the Deployments of the operator, and their Leases.
func (e *examination) readOperators(ctx context.Context) error {
	var deployments appsv1.DeploymentList
	if err := e.List(ctx, &deployments, client.MatchingLabels{doctor.LabelName: doctor.OperatorApp}); err != nil {
		return e.note(doctor.NeedDeployments, "list Deployments in all namespaces", err)
	}
	for i := range deployments.Items {
		is := doctor.OperatorOf(&deployments.Items[i])
		if is.Elects {
			if err := e.readLease(ctx, &is); err != nil {
				return err
			}
		}
		e.facts.Operators = append(e.facts.Operators, is)
	}
	return nil
}

func (e *examination) readLease(ctx context.Context, of *doctor.Operator) error {
	var lease coordinationv1.Lease
	err := e.Get(ctx, client.ObjectKey{Namespace: of.LeaseNamespace, Name: of.LeaseName}, &lease)
	if apierrors.IsNotFound(err) {
		return nil // Nobody holds it.
	}
	if err != nil {
		return e.note(doctor.NeedLease, fmt.Sprintf("read the Lease %s/%s", of.LeaseNamespace, of.LeaseName), err)
	}
	if is := &lease.Spec; is.HolderIdentity != nil && is.RenewTime != nil && is.LeaseDurationSeconds != nil {
		of.Lease = doctor.Lease{
			Holder: *is.HolderIdentity, Renewed: is.RenewTime.Time, Duration: time.Duration(*is.LeaseDurationSeconds) * time.Second,
		}
	}
	return nil
}

// right is a permission in a namespace; in all if it is empty.
type right struct {
	doctor.Right

	namespace string
}

func (r right) attributes() *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{Namespace: r.namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Name: r.Name}
}

// readRights finds out which permissions the user lacks.
func (e *examination) readRights(ctx context.Context) error {
	wanted := []right{
		{doctor.Right{Verb: "list", Group: appsv1.GroupName, Resource: "deployments"}, ""},
		{doctor.Right{Verb: "create", Group: authorizationv1.GroupName, Resource: "subjectaccessreviews"}, ""},
	}
	for _, each := range e.facts.Operators {
		wanted = append(wanted, right{doctor.Right{Verb: "get", Group: coordinationv1.GroupName, Resource: "leases"}, each.LeaseNamespace})
	}
	if e.facts.ScaledJob != nil {
		for _, each := range []doctor.Right{
			{Verb: "list", Group: scaledjobv1.GroupVersion.Group, Resource: "scaledjobs"},
			{Verb: "list", Group: "batch", Resource: "jobs"},
			{Verb: "create", Group: "batch", Resource: "jobs"},
			{Verb: "list", Resource: "pods"},
			{Verb: "create", Resource: "pods"},
			{Verb: "list", Resource: "resourcequotas"},
			{Verb: "get", Resource: "secrets"},
			{Verb: "get", Resource: "configmaps"},
			{Verb: "get", Resource: "serviceaccounts"},
		} {
			wanted = append(wanted, right{each, e.facts.Namespace})
		}
	}
	for _, each := range wanted {
		review := &authorizationv1.SelfSubjectAccessReview{}
		review.Spec.ResourceAttributes = each.attributes()
		if err := e.Create(ctx, review); err != nil {
			return e.note(doctor.NeedRights, "ask which permissions you have", err)
		}
		if !review.Status.Allowed {
			e.facts.Denied = append(e.facts.Denied, each.Right)
		}
	}
	return nil
}

// readOperatorRights finds out which permissions the operators of the namespace lack. Where the Roles are does not
// matter then, nor who has written them.
func (e *examination) readOperatorRights(ctx context.Context) error {
	for _, each := range e.facts.Operators {
		if !each.IsFor(e.facts.Namespace) {
			continue
		}
		for _, wanted := range e.operatorNeeds() {
			review := &authorizationv1.SubjectAccessReview{}
			review.Spec.User = "system:serviceaccount:" + each.Namespace + ":" + each.ServiceAccount
			review.Spec.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + each.Namespace, "system:authenticated"}
			review.Spec.ResourceAttributes = right{wanted, e.facts.Namespace}.attributes()
			if err := e.Create(ctx, review); err != nil {
				return e.note(doctor.NeedOperatorRights, "ask which permissions the operator has", err)
			}
			if !review.Status.Allowed {
				e.facts.OperatorDenied = append(e.facts.OperatorDenied, wanted)
			}
		}
	}
	return nil
}

// operatorNeeds are the permissions that the operator needs in the namespace.
func (e *examination) operatorNeeds() []doctor.Right {
	var all []doctor.Right
	add := func(group, resource string, verbs ...string) {
		for _, verb := range verbs {
			all = append(all, doctor.Right{Verb: verb, Group: group, Resource: resource})
		}
	}
	own := scaledjobv1.GroupVersion.Group
	add("batch", "jobs", "create", "delete", "get", "list", "watch")
	add(own, "scaledjobs", "get", "list", "watch")
	add(own, "scaledjobs/status", "patch")
	add("events.k8s.io", "events", "create", "patch")
	for _, name := range e.facts.RedisSecrets() {
		all = append(all, doctor.Right{Verb: "get", Resource: "secrets", Name: name})
	}
	return all
}
