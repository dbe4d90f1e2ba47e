// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// answered returns the error of an answer with this code, reason and message.
func answered(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: message}}
}

func forbidden(message string) error {
	return apierrors.NewForbidden(batchv1.Resource("jobs"), "emails-abc-7", errors.New(message))
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const denied = `admission webhook "w.example.com" denied the request: no`
	const failed = `failed calling webhook "w.example.com": failed to call webhook: Post "https://127.0.0.1:9/": connection refused`
	const quota = "exceeded quota: small, requested: count/jobs.batch=1,pods=2, used: count/jobs.batch=5,pods=9, limited: count/jobs.batch=5,pods=10"
	invalid := apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), "emails-abc-7",
		field.ErrorList{field.Required(field.NewPath("spec", "template"), "")})
	byWebhook := Answer{Refused: true, By: ByWebhook, Name: "w.example.com", Text: denied}
	cases := map[string]struct {
		err  error
		want Answer
	}{
		"no answer":              {context.DeadlineExceeded, Answer{}},
		"invalid":                {invalid, Answer{Refused: true, Text: "spec.template: Required value"}},
		"without a word":         {answered(422, metav1.StatusReasonInvalid, ""), Answer{Refused: true, Text: "Invalid"}},
		"wrapped":                {fmt.Errorf("creating a Job: %w", forbidden("no")), Answer{Refused: true, Text: "no"}},
		"bad request":            {answered(400, "", "no"), Answer{Refused: true, Text: "no"}},
		"several lines":          {forbidden("one\n\ttwo\x00\r\n three\xff"), Answer{Refused: true, Text: "one two three"}},
		"a webhook is away":      {answered(500, metav1.StatusReasonInternalError, "Internal error occurred: "+failed), Answer{By: ByWebhook, Name: "w.example.com", Text: "Internal error occurred: " + failed}},
		"a webhook knows no dry": {answered(400, metav1.StatusReasonBadRequest, `admission webhook "w.example.com" does not support dry run`), Answer{By: ByWebhook, Name: "w.example.com", Text: `admission webhook "w.example.com" does not support dry run`}},
		"a policy": {
			forbidden("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"),
			Answer{Refused: true, By: ByPolicy, Name: "p", Text: "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"},
		},
		"a quota":                {forbidden(quota), Answer{Refused: true, By: ByQuota, Name: "small", Text: quota, Exceeded: map[string]int64{"count/jobs.batch": 1, "pods": 1}}},
		"a quota is not counted": {forbidden("status unknown for quota: small, resources: count/jobs.batch"), Answer{By: ByQuota, Name: "small", Text: "status unknown for quota: small, resources: count/jobs.batch"}},
		"a quota asks for more":  {forbidden("failed quota: small: must specify limits.cpu"), Answer{Refused: true, Text: "failed quota: small: must specify limits.cpu"}},
		"permissions": {
			apierrors.NewForbidden(batchv1.Resource("jobs"), "", errors.New(`User "system:serviceaccount:a:b" cannot create resource "jobs" in API group "batch" in the namespace "c"`)),
			Answer{Refused: true, By: ByPermissions, Name: "system:serviceaccount:a:b", Text: `User "system:serviceaccount:a:b" cannot create resource "jobs" in API group "batch" in the namespace "c"`},
		},
		"overload":       {apierrors.NewTooManyRequests("later", 1), Answer{Text: "later"}},
		"a timeout":      {apierrors.NewTimeoutError("late", 1), Answer{Text: "Timeout: late"}},
		"a conflict":     {answered(409, metav1.StatusReasonConflict, "the quota has changed"), Answer{Text: "the quota has changed"}},
		"no credentials": {apierrors.NewUnauthorized("Unauthorized"), Answer{Text: "Unauthorized"}},
		"broken":         {answered(500, metav1.StatusReasonInternalError, "etcd is away"), Answer{Text: "etcd is away"}},
	}
	for _, code := range []int32{400, 401, 403, 404, 409, 413, 422, 429, 500, 503} {
		cases[fmt.Sprintf("a webhook denies with %d", code)] = struct {
			err  error
			want Answer
		}{answered(code, metav1.StatusReasonAlreadyExists, denied), byWebhook}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(Judge(c.err)).To(Equal(c.want))
		})
	}
}

// Only the beginning of what the API server says shows who refused: what follows may be somebody else's.
func TestAForgedNameIsNotTaken(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	answer := Judge(answered(500, "", `something: admission webhook "w" denied the request`))
	g.Expect(answer.Refused).To(BeFalse())
	g.Expect(answer.By).To(Equal(ByServer))
	answer = Judge(answered(400, "", `admission webhook "w" denied the request: exceeded quota: q, requested: pods=1, used: `))
	g.Expect(answer.By).To(Equal(ByWebhook))
	g.Expect(answer.Exceeded).To(BeEmpty())
}

func TestTextIsBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	text := Judge(answered(400, "", strings.Repeat("ä", 5000))).Text
	g.Expect(len(text)).To(BeNumerically("<=", 1024))
	g.Expect(text).To(HaveSuffix("…"))
}

func TestBlamesTemplate(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(Answer{Refused: true}.BlamesTemplate()).To(BeTrue())
	g.Expect(Answer{Refused: true, By: ByWebhook}.BlamesTemplate()).To(BeTrue())
	g.Expect(Answer{Refused: true, By: ByQuota}.BlamesTemplate()).To(BeFalse())
	g.Expect(Answer{Refused: true, By: ByPermissions}.BlamesTemplate()).To(BeFalse())
	g.Expect(Answer{By: ByWebhook}.BlamesTemplate()).To(BeFalse())
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, warnings := WithWarnings(t.Context())
	for _, text := range []string{"would violate\nPodSecurity", "would violate\nPodSecurity", "", "2", "3", "4", "5", "6"} {
		WarningHandler{}.HandleWarningHeaderWithContext(ctx, 299, "-", text)
	}
	WarningHandler{}.HandleWarningHeaderWithContext(ctx, 214, "-", "of a proxy")
	WarningHandler{}.HandleWarningHeaderWithContext(t.Context(), 299, "-", "of another request")
	g.Expect(warnings.Texts()).To(Equal([]string{"would violate PodSecurity", "2", "3", "4", "5"}))
}
