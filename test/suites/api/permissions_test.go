// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/operator"
)

// prefix is what config/default puts before the names of cluster-wide objects.
const prefix = "scaledjob-operator-"

func newNamespace(t *testing.T) string {
	t.Helper()
	return control.NewNamespace(t, "api")
}

// newClientOf returns a client that signs in by this configuration.
func newClientOf(t *testing.T, config *rest.Config) client.WithWatch {
	t.Helper()
	api, err := operator.NewClient(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return api
}

// asServiceAccount is how a ServiceAccount signs in.
func asServiceAccount(t *testing.T, namespace, name string) *rest.Config {
	t.Helper()
	config, err := control.ServiceAccountConfig(t.Context(), namespace, name)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return config
}

// asOperator is how the operator signs in.
func asOperator(t *testing.T) *rest.Config {
	t.Helper()
	return asServiceAccount(t, operator.Namespace, operator.ServiceAccount)
}

// asUser is how somebody signs in who is in no group.
func asUser(name string) *rest.Config {
	config := control.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	return config
}

// permissions lists all that somebody may do in a namespace, as "verb
// resource.group" and, for paths of no resource, "verb /path".
func permissions(ctx context.Context, api client.Client, namespace string) ([]string, error) {
	review := authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := api.Create(ctx, &review); err != nil {
		return nil, err
	}
	if review.Status.Incomplete {
		return nil, errors.New("the API server does not know all rules: " + review.Status.EvaluationError)
	}
	return flatten(review.Status), nil
}

func flatten(rules authorizationv1.SubjectRulesReviewStatus) []string {
	var all []string
	for _, rule := range rules.ResourceRules {
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					all = append(all, permission(verb, resource, group, rule.ResourceNames))
				}
			}
		}
	}
	for _, rule := range rules.NonResourceRules {
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				all = append(all, verb+" "+path)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func permission(verb, resource, group string, names []string) string {
	text := verb + " " + resource
	if group != "" {
		text += "." + group
	}
	for _, name := range names {
		text += " " + name
	}
	return text
}
