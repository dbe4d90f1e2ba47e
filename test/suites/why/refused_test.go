// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"net/http"
	"strings"

	. "github.com/onsi/gomega"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
	"miracle.dev/scaledjob-operator/test/kit/webhook"
)

const (
	// labelsWebhook is the name of the webhooks, and needsTeam what they say.
	labelsWebhook = "labels.policy.example.com"
	needsTeam     = "Jobs in NAMESPACE need the label team"
	// pricesQuota is the name of the quotas.
	pricesQuota = "team-quota"
	// wouldViolate is what the API server warns of.
	wouldViolate = "would violate PodSecurity"
)

// refused are the situations in which the API server creates no Job.
func refused() []situation {
	return []situation{
		byCode("webhook-without-code", 0),
		byCode("webhook-401", http.StatusUnauthorized),
		byCode("webhook-403", http.StatusForbidden),
		byCode("webhook-404", http.StatusNotFound),
		byCode("webhook-409", http.StatusConflict),
		byCode("webhook-413", http.StatusRequestEntityTooLarge),
		byCode("webhook-422", http.StatusUnprocessableEntity),
		byCode("webhook-429", http.StatusTooManyRequests),
		byCode("webhook-500", http.StatusInternalServerError),
		longText(),
		byPolicy("policy", nil),
		byPolicy("policy-forbidden", new(metav1.StatusReasonForbidden)),
		mutated(), quota(), history(), withoutPermission(), warned(),
		unanswered("webhook-hangs", "", func(s *stage) {
			s.webhook(webhook.Hang, webhook.Named(labelsWebhook), webhook.Within(1))
		}),
		unanswered("webhook-500-without-review", "", func(s *stage) {
			s.webhook(webhook.Fail(http.StatusInternalServerError), webhook.Named(labelsWebhook))
		}),
		unanswered("webhook-lies", "", func(s *stage) { s.webhook(webhook.Lie, webhook.Named(labelsWebhook)) }),
		unanswered("webhook-refuses-connections", "refused", func(s *stage) {
			proxy := tcpproxy.New(s.t, redisServer.Addr())
			s.Expect(proxy.Refuse()).To(Succeed())
			s.webhook(webhook.Hang, webhook.Named(labelsWebhook), webhook.At(proxy.Addr()))
		}),
		unanswered("webhook-without-service", `service "labels" not found`, func(s *stage) {
			s.webhook(webhook.Hang, webhook.Named(labelsWebhook), webhook.Behind(s.Namespace, "labels"))
		}),
		unanswered("webhook-of-unknown-authority", "certificate", func(s *stage) {
			authority := certificates.NewAuthority(s.t)
			s.webhook(webhook.Hang, webhook.Named(labelsWebhook), webhook.Trusting(authority.Certificate()))
		}),
	}
}

// webhook has a webhook asked about Jobs of the namespace, until undo, and waits until it is.
func (s *stage) webhook(answer webhook.Answer, changes ...webhook.Change) {
	s.t.Helper()
	started := must.Get(webhook.Start(s.t.Context(), s.API, s.Namespace, webhook.CreateJob, answer, changes...))(s)
	s.cleanUp(started.Stop)
	s.awaitRefused()
}

// createRefused is the claim that the API server refuses Jobs.
func createRefused(words ...string) claim {
	return claimed(scaledjobv1.ConditionScalingLimited, yes, scaledjobv1.ReasonCreateRefused, words...)
}

// rejected are the claims that the template is at fault.
func rejected(words ...string) []claim {
	return []claim{
		claimed(scaledjobv1.ConditionTemplateValid, no, scaledjobv1.ReasonRejected, words...),
		claimed(scaledjobv1.ConditionReady, no, scaledjobv1.ReasonRejected, words...),
		claimed(scaledjobv1.ConditionStalled, yes, scaledjobv1.ReasonRejected, words...),
	}
}

// denied is a situation in which the API server rejects the Jobs with these words, and how they come to be.
func denied(name string, bring func(s *stage), words ...string) situation {
	return situation{
		name: name, bring: bring, cure: undo,
		says:  createRefused(words...),
		also:  rejected(words...),
		event: warning(scaledjobv1.ReasonCreateRefused, words...),
	}
}

// byCode is a webhook that denies Jobs with this code.
func byCode(name string, code int32) situation {
	w := denied(name, func(s *stage) {
		s.createWell()
		s.webhook(webhook.Deny(code, s.fill(needsTeam)), webhook.Named(labelsWebhook))
		s.push(2)
	}, labelsWebhook, needsTeam)
	w.says.words = append(w.says.words, "denied the request")
	return w
}

// longText is a webhook that says far more than there is room for, in many lines. It denies Jobs from the beginning.
func longText() situation {
	const end = "this is the end"
	w := denied("webhook-with-long-text", func(s *stage) {
		text := s.fill(needsTeam) + strings.Repeat("\nas the handbook says", 200) + end
		s.webhook(webhook.Deny(http.StatusForbidden, text), webhook.Named(labelsWebhook))
		s.push(1)
		s.create()
	}, labelsWebhook, needsTeam)
	w.says.without = end
	return w
}

// byPolicy is an admission policy that denies Jobs.
func byPolicy(name string, reason *metav1.StatusReason) situation {
	const policy, text = "labels-NAMESPACE", "Jobs need the label team"
	return denied(name, func(s *stage) {
		s.createWell()
		made, err := webhook.Forbid(s.t.Context(), s.API, s.fill(policy), s.Namespace, webhook.CreateJob, registrationv1.Validation{
			Expression: "has(object.metadata.labels) && 'team' in object.metadata.labels", Message: text, Reason: reason,
		})
		s.Expect(err).NotTo(HaveOccurred())
		s.cleanUp(made.Remove)
		s.awaitRefused()
		s.push(2)
	}, policy, text)
}

// mutated is an admission policy that takes the owner reference from Jobs, so that the operator could not count them.
func mutated() situation {
	return situation{
		name: "policy-removes-owner",
		bring: func(s *stage) {
			s.createWell()
			s.disown()
			s.push(1)
		},
		says:  createRefused("admission policy", "owner reference"),
		event: warning(scaledjobv1.ReasonCreateRefused, "owner reference"),
		cure:  undo,
	}
}

// disown has an admission policy remove the owner references of Jobs of the namespace, until undo.
func (s *stage) disown() {
	s.t.Helper()
	fail := registrationv1.Fail
	policy := &registrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "disown-" + s.Namespace},
		Spec: registrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy: &fail, ReinvocationPolicy: registrationv1.NeverReinvocationPolicy,
			MatchConstraints: &registrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Namespace}},
				ResourceRules: []registrationv1.NamedRuleWithOperations{{RuleWithOperations: registrationv1.RuleWithOperations{
					Operations: []registrationv1.OperationType{registrationv1.Create},
					Rule:       registrationv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
				}}},
			},
			Mutations: []registrationv1.Mutation{{
				PatchType: registrationv1.PatchTypeJSONPatch,
				JSONPatch: &registrationv1.JSONPatch{
					Expression: "has(object.metadata.ownerReferences) ? " +
						`[JSONPatch{op: "remove", path: "/metadata/ownerReferences"}] : [JSONPatch{op: "remove", path: "/metadata/labels"}]`,
				},
			}},
		},
	}
	binding := &registrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec:       registrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy.Name},
	}
	s.Expect(s.API.Create(s.t.Context(), policy)).To(Succeed())
	s.Expect(s.API.Create(s.t.Context(), binding)).To(Succeed())
	s.cleanUp(func(ctx context.Context) error {
		return errors.Join(client.IgnoreNotFound(s.API.Delete(ctx, binding)), client.IgnoreNotFound(s.API.Delete(ctx, policy)))
	})
	s.awaitRefused() // A Job without labels has none to remove, which is an error.
}

// quota is a full quota, and no finished Job could be deleted.
func quota() situation {
	return situation{
		name: "quota",
		bring: func(s *stage) {
			s.createWell()
			s.quota(pricesQuota, sjtest.JobCount, 0)
			s.push(2)
		},
		says: createRefused("exceeded quota", pricesQuota, "count/jobs.batch"),
		also: []claim{
			claimed(scaledjobv1.ConditionReady, no, scaledjobv1.ReasonCreateRefused, pricesQuota),
			claimed(scaledjobv1.ConditionReconciling, yes, scaledjobv1.ReasonCreateRefused),
			claimed(scaledjobv1.ConditionTemplateValid, yes, scaledjobv1.ReasonAccepted),
		},
		event: warning(scaledjobv1.ReasonCreateRefused, "exceeded quota", pricesQuota),
		cure:  undo,
	}
}

// history is a quota for fewer Jobs than the history limits keep.
func history() situation {
	return situation{
		name: "quota-full-of-finished-jobs",
		bring: func(s *stage) {
			s.createWell()
			s.push(2)
			s.finishJobs()
			s.quota(pricesQuota, sjtest.JobCount, 2)
			s.push(1)
		},
		says:  claimed(scaledjobv1.ConditionScalingLimited, no, scaledjobv1.ReasonNotLimited),
		event: event{kind: corev1.EventTypeNormal, reason: "DeletedHistory"},
	}
}

// withoutPermission is an operator that may create no Jobs in the namespace.
func withoutPermission() situation {
	return situation{
		name: "permission", restricted: true,
		bring: early(1),
		says:  createRefused("may not create Jobs in this namespace").lacking("is forbidden"),
		event: warning(scaledjobv1.ReasonCreateRefused, "may not create Jobs in this namespace"),
		cure:  func(s *stage) { s.grant("batch", "jobs", "create") },
	}
}

// warned is a template that the API server accepts with a warning.
func warned() situation {
	const warn = "pod-security.kubernetes.io/warn"
	accepted := func(words ...string) claim {
		return claimed(scaledjobv1.ConditionTemplateValid, yes, scaledjobv1.ReasonAccepted, words...)
	}
	return situation{
		name: "warning",
		bring: func(s *stage) {
			s.labelNamespace(warn, "restricted")
			s.push(1)
			s.create()
		},
		says:  accepted(wouldViolate),
		event: warning("TemplateWarning", wouldViolate),
		cure:  update(unprivileged),
		then:  wellAnd(accepted().lacking(wouldViolate)),
	}
}

// unprivileged has the Pods ask for no more than the level restricted allows.
func unprivileged(spec *scaledjobv1.ScaledJobSpec) {
	pod := &spec.JobTemplate.Spec.Template.Spec
	pod.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	pod.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// unanswered is a webhook from which the API server gets no answer.
func unanswered(name, words string, register func(s *stage)) situation {
	failed := []string{"failed calling webhook", labelsWebhook}
	return situation{
		name: name,
		bring: func(s *stage) {
			s.createWell()
			register(s)
			s.push(2)
		},
		says:  claimed(scaledjobv1.ConditionScalingLimited, yes, scaledjobv1.ReasonCreateFailing, append(failed, words)...),
		event: warning(scaledjobv1.ReasonCreateFailing, failed...),
		cure:  undo,
	}
}
