// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The labels of the operator's Deployment, and the name of its Lease unless a flag says otherwise.
const (
	LabelName   = "app.kubernetes.io/name"
	OperatorApp = "scaledjob-operator"

	labelVersion = "app.kubernetes.io/version"
	defaultLease = "scaledjob-operator.batch.miracle.dev"
)

// Operator is a Deployment of the operator.
type Operator struct {
	Namespace, Name string
	// Version is that of its labels or its image; empty if neither has one.
	Version string
	// Wanted and Ready are numbers of replicas, and Why says why there are fewer; empty if that is not known.
	Wanted, Ready int32
	Why           string
	// ServiceAccount is as whom it signs in to the API server.
	ServiceAccount string
	// Watches are its namespaces; empty for all.
	Watches []string
	// Elects is true if it elects a leader, by this Lease.
	Elects                    bool
	LeaseNamespace, LeaseName string
	Lease                     Lease
}

// Lease says who the leader is.
type Lease struct {
	// Holder is empty if nobody is the leader.
	Holder   string
	Renewed  time.Time
	Duration time.Duration
}

// OperatorOf returns what a Deployment says of the operator. It has no Lease yet.
func OperatorOf(deployment *appsv1.Deployment) Operator {
	pod := &deployment.Spec.Template.Spec
	is := Operator{
		Namespace: deployment.Namespace, Name: deployment.Name, Version: deployment.Labels[labelVersion],
		Wanted: 1, Ready: deployment.Status.ReadyReplicas, ServiceAccount: pod.ServiceAccountName,
		LeaseNamespace: deployment.Namespace, LeaseName: defaultLease,
	}
	if deployment.Spec.Replicas != nil {
		is.Wanted = *deployment.Spec.Replicas
	}
	if is.ServiceAccount == "" {
		is.ServiceAccount = "default"
	}
	for _, condition := range deployment.Status.Conditions {
		if condition.Status == corev1.ConditionFalse || condition.Type == appsv1.DeploymentReplicaFailure {
			is.Why = condition.Message
		}
	}
	if len(pod.Containers) > 0 {
		is.configure(&pod.Containers[0])
	}
	return is
}

// configure takes what the flags and the image say.
func (o *Operator) configure(container *corev1.Container) {
	if _, tag, tagged := strings.Cut(container.Image[strings.LastIndex(container.Image, "/")+1:], ":"); tagged && o.Version == "" {
		o.Version, _, _ = strings.Cut(tag, "@")
	}
	for i, arg := range container.Args {
		name, value, inside := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !inside && i+1 < len(container.Args) {
			value = container.Args[i+1]
		}
		switch name {
		case "leader-elect":
			o.Elects = !inside || value == "true"
		case "leader-election-namespace":
			o.LeaseNamespace = value
		case "leader-election-id":
			o.LeaseName = value
		case "watch-namespaces":
			for each := range strings.SplitSeq(value, ",") {
				o.Watches = append(o.Watches, strings.TrimSpace(each))
			}
		}
	}
}

// IsFor reports whether the operator watches the namespace.
func (o *Operator) IsFor(namespace string) bool {
	return len(o.Watches) == 0 || slices.Contains(o.Watches, namespace)
}

func (o *Operator) String() string { return o.Namespace + "/" + o.Name }

// responsible returns the operators that watch the namespace.
func (f *Facts) responsible() []*Operator {
	var all []*Operator
	for i := range f.Operators {
		if f.Operators[i].IsFor(f.Namespace) {
			all = append(all, &f.Operators[i])
		}
	}
	return all
}

// Right is a permission.
type Right struct{ Verb, Group, Resource, Name string }

func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += "/" + r.Name
	}
	return text
}

func join(all []Right) string {
	texts := make([]string, len(all))
	for i, each := range all {
		texts[i] = each.String()
	}
	return strings.Join(texts, ", ")
}

func crd(f *Facts) []Finding {
	if f.CRD.Served {
		return nil
	}
	return []Finding{{Error, "The cluster has no ScaledJobs of the group batch.miracle.dev.", "Install the CRD and the operator: docs/how-to/install.md."}}
}

func crdVersion(f *Facts) []Finding {
	var found []Finding
	if missing := f.CRD.Fields.Missing; len(missing) > 0 {
		found = append(found, Finding{
			Warning, "The CRD is older than this program. It lacks: " + strings.Join(missing, ", ") + ".",
			"Apply the CRD of the operator's version: docs/how-to/upgrade.md says how.",
		})
	}
	if unknown := f.CRD.Fields.Unknown; len(unknown) > 0 {
		found = append(found, Finding{
			Warning, "The CRD is newer than this program, which does not know: " + strings.Join(unknown, ", ") + ".",
			"Install the version of this program that belongs to the CRD.",
		})
	}
	return found
}

func operatorReady(f *Facts) []Finding {
	if len(f.Operators) == 0 {
		return []Finding{{
			Error, "There is no Deployment of the operator, with the label " + LabelName + "=" + OperatorApp + ".",
			"Install the operator: docs/how-to/install.md.",
		}}
	}
	all := f.responsible()
	if len(all) == 0 {
		return []Finding{{
			Error, fmt.Sprintf("No operator watches the namespace %q. There is %s, for %s.", f.Namespace, &f.Operators[0],
				strings.Join(f.Operators[0].Watches, ", ")),
			"Add the namespace to --watch-namespaces, or to watchNamespaces of the chart.",
		}}
	}
	var found []Finding
	for _, each := range all {
		if each.Ready == 0 {
			found = append(found, each.unready(Error))
		} else if each.Ready < each.Wanted {
			found = append(found, each.unready(Warning))
		}
	}
	return found
}

func (o *Operator) unready(level Level) Finding {
	message := fmt.Sprintf("Of the operator %s, %d of %d replicas are ready.", o, o.Ready, o.Wanted)
	if o.Why != "" {
		message += " " + strings.TrimSuffix(o.Why, ".") + "."
	}
	if o.Wanted == 0 {
		return Finding{level, message, fmt.Sprintf("kubectl scale deployment %s --namespace=%s --replicas=2", o.Name, o.Namespace)}
	}
	return Finding{level, message, fmt.Sprintf("See why: kubectl describe pods --namespace=%s --selector=%s=%s", o.Namespace, LabelName, OperatorApp)}
}

// release is the beginning of a version.
var release = regexp.MustCompile(`^v?(\d+\.\d+)\.\d+`)

func operatorVersion(f *Facts) []Finding {
	var found []Finding
	own := release.FindStringSubmatch(f.Version)
	for _, each := range f.responsible() {
		theirs := release.FindStringSubmatch(each.Version)
		if own != nil && theirs != nil && own[1] != theirs[1] {
			found = append(found, Finding{
				Warning, fmt.Sprintf("The operator %s has version %s, and this program %s.", each, each.Version, f.Version),
				"Use the same version of both: what the one writes or expects, the other may not know.",
			})
		}
	}
	return found
}

// late is how much later than its duration a Lease may be renewed, because the clock here may be another one.
const late = time.Minute

func leader(f *Facts) []Finding {
	var found []Finding
	for _, each := range f.responsible() {
		if !each.Elects {
			continue
		}
		logs := fmt.Sprintf("See the log: kubectl logs --namespace=%s --selector=%s=%s --tail=50", each.Namespace, LabelName, OperatorApp)
		lease := each.LeaseNamespace + "/" + each.LeaseName
		switch is := each.Lease; {
		case is.Holder == "":
			found = append(found, Finding{Error, "Nobody holds the Lease " + lease + ", so no replica works.", logs})
		case f.Now.Sub(is.Renewed) > is.Duration+late:
			found = append(found, Finding{
				Error, fmt.Sprintf("The Lease %s was last renewed at %s, so no replica works.", lease, is.Renewed.UTC().Format(time.RFC3339)), logs,
			})
		}
	}
	return found
}

func oneOperator(f *Facts) []Finding {
	all := f.responsible()
	if len(all) < 2 {
		return nil
	}
	names := make([]string, len(all))
	for i, each := range all {
		names[i] = each.String()
	}
	return []Finding{{
		Error, "Several operators watch the namespace: " + strings.Join(names, ", ") + ". They create Jobs twice, or undo what the other writes.",
		"Remove all but one, or give each its own namespaces with --watch-namespaces.",
	}}
}

func operatorRights(f *Facts) []Finding {
	if len(f.OperatorDenied) == 0 {
		return nil
	}
	return []Finding{{
		Error, "The operator may not: " + join(f.OperatorDenied) + ".",
		"Apply the Roles and bindings that are installed with the operator. For Secrets: docs/how-to/install.md.",
	}}
}

func rights(f *Facts) []Finding {
	if len(f.Denied) == 0 {
		return nil
	}
	return []Finding{{
		Unchecked, "You may not: " + join(f.Denied) + ". What needs it was not checked.",
		"Ask an administrator for these permissions, or let one run this command.",
	}}
}
