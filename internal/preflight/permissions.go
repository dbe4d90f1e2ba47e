// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// MaxNamespaces is the number of namespaces in which permissions are checked. It bounds the requests at startup, which
// should take a fraction of a second.
const MaxNamespaces = 25

// Permission is a permission.
type Permission struct {
	authorizationv1.ResourceAttributes

	// Without tells what does not work without it. It is empty if the operator can't work at all.
	Without string
	// ofCluster is true for resources that are in no namespace.
	ofCluster bool
}

// Needs says what the operator is to do.
type Needs struct {
	// Namespaces are those that it watches; none means all.
	Namespaces []string
	// Lease is the namespace and name of the Lease, with a slash between them; empty without leader election.
	Lease string
	// AuthenticatesMetrics is true if it asks the API server who may read its metrics.
	AuthenticatesMetrics bool
}

// perNamespace are the permissions in each watched namespace.
var perNamespace = []struct {
	group, resource, subresource string
	verbs                        []string
	without                      string
}{
	{group: scaledjobv1.GroupVersion.Group, resource: "scaledjobs", verbs: []string{"get", "list", "watch"}},
	{group: scaledjobv1.GroupVersion.Group, resource: "scaledjobs", subresource: "status", verbs: []string{"patch"}},
	{group: batchv1.GroupName, resource: "jobs", verbs: []string{"create", "delete", "get", "list", "watch"}},
	{
		group: "events.k8s.io", resource: "events", verbs: []string{"create", "patch"},
		without: "there are no events about ScaledJobs",
	},
	{
		group: scaledjobv1.GroupVersion.Group, resource: "scaledjobs", subresource: "finalizers", verbs: []string{"update"},
		without: "no Job is created in a cluster with the admission plugin OwnerReferencesPermissionEnforcement",
	},
}

// Permissions returns the permissions that the operator needs, namespace by namespace.
func (n Needs) Permissions() []Permission {
	namespaces := n.Namespaces[:min(len(n.Namespaces), MaxNamespaces)]
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var permissions []Permission
	for _, namespace := range namespaces {
		for _, each := range perNamespace {
			for _, verb := range each.verbs {
				permissions = append(permissions, Permission{Without: each.without, ResourceAttributes: authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: verb,
					Group: each.group, Resource: each.resource, Subresource: each.subresource,
				}})
			}
		}
	}
	return slices.Concat(permissions, n.forLease(), n.forMetrics())
}

// forLease returns the permissions for leader election. A Role may restrict get and update to the name of the Lease.
func (n Needs) forLease() (permissions []Permission) {
	if n.Lease == "" {
		return nil
	}
	namespace, name, _ := strings.Cut(n.Lease, "/")
	for _, verb := range []string{"get", "create", "update"} {
		permission := Permission{ResourceAttributes: authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: "coordination.k8s.io", Resource: "leases",
		}}
		if verb != "create" { // Then the name is not known to those who decide.
			permission.Name = name
		}
		permissions = append(permissions, permission)
	}
	return permissions
}

func (n Needs) forMetrics() []Permission {
	if !n.AuthenticatesMetrics {
		return nil
	}
	create := func(group, resource string) Permission {
		return Permission{
			ResourceAttributes: authorizationv1.ResourceAttributes{Verb: "create", Group: group, Resource: resource},
			Without:            "nobody can read the metrics",
			ofCluster:          true,
		}
	}
	return []Permission{
		create("authentication.k8s.io", "tokenreviews"), create("authorization.k8s.io", "subjectaccessreviews"),
	}
}

// String returns the command that checks whether the caller has the permission.
func (p Permission) String() string {
	command := "kubectl auth can-i " + p.Verb + " " + p.Resource + "." + p.Group
	if p.Name != "" {
		command += "/" + p.Name
	}
	if p.Subresource != "" {
		command += " --subresource=" + p.Subresource
	}
	switch {
	case p.ofCluster:
		return command
	case p.Namespace == "":
		return command + " --all-namespaces"
	default:
		return command + " --namespace=" + p.Namespace
	}
}

// Required reports whether the operator can't work without the permission.
func (p Permission) Required() bool { return p.Without == "" }
