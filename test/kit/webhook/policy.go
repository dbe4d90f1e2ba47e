// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Policy is an admission policy and its binding. Remove it.
type Policy struct {
	api     client.Client
	objects []client.Object
}

// Forbid has an admission policy of this name deny what matches the rule in a namespace, unless the validation holds.
func Forbid(
	ctx context.Context, api client.Client, name, namespace string, of Rule, unless registrationv1.Validation,
) (*Policy, error) {
	policy := &registrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: registrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &registrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ObjectSelector:    &metav1.LabelSelector{MatchLabels: of.Labels},
				ResourceRules:     []registrationv1.NamedRuleWithOperations{{RuleWithOperations: of.registered()}},
			},
			Validations: []registrationv1.Validation{unless},
		},
	}
	binding := &registrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: registrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []registrationv1.ValidationAction{registrationv1.Deny},
		},
	}
	p := &Policy{api: api, objects: []client.Object{policy, binding}}
	for _, object := range p.objects {
		if err := api.Create(ctx, object); err != nil {
			return nil, errors.Join(fmt.Errorf("creating admission policy %s: %w", name, err), p.Remove(ctx))
		}
	}
	return p, nil
}

// Remove removes the policy. Removing it again does nothing.
func (p *Policy) Remove(ctx context.Context) error {
	var errs []error
	for _, object := range p.objects {
		errs = append(errs, client.IgnoreNotFound(p.api.Delete(ctx, object)))
	}
	return errors.Join(errs...)
}
