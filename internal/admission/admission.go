// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission says what the answer of the API server to a create means: whether it would refuse the same request
// again, who refused it, and in which words. It also collects the warnings of an answer.
package admission

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// By is who refused a request, or did not answer the API server.
type By string

const (
	// ByServer is the API server itself: validation, an admission plugin, or a failure of its own.
	ByServer By = ""
	// ByWebhook is an admission webhook.
	ByWebhook By = "admission webhook"
	// ByPolicy is an admission policy: a ValidatingAdmissionPolicy or a MutatingAdmissionPolicy.
	ByPolicy By = "admission policy"
	// ByQuota is a ResourceQuota that is used up.
	ByQuota By = "quota"
	// ByChange is a webhook or policy that changes Jobs so that the operator can't use them.
	ByChange By = "change"
	// ByPermissions is the authorization of the operator itself.
	ByPermissions By = "permissions"
)

// Answer is why the API server did not carry out a request. The zero value means that it did, or that none was sent.
type Answer struct {
	// Refused is true if the API server would refuse the same request again. Otherwise it could not carry out the
	// request, or gave no answer.
	Refused bool
	// By is who refused the request or did not answer, and Name its name; empty if it has none.
	By   By
	Name string
	// Text is what the API server said, in one line of at most 1 KiB; empty if it gave no answer. It does not contain
	// the name of the object, which differs from Job to Job.
	Text string
	// Exceeded are the resources of the quota that the request would exceed, such as count/jobs.batch, and by how much. A
	// resource whose numbers can't be read is left out.
	Exceeded map[string]int64
}

// BlamesTemplate reports whether the refusal is about what the template says, and not about a quota that is used up, a
// permission of the operator, or what was changed in the Job.
func (a Answer) BlamesTemplate() bool {
	return a.Refused && a.By != ByQuota && a.By != ByPermissions && a.By != ByChange
}

// rules find out by the words of the API server who refused a request, in the order in which they are tried. A webhook
// may answer with any code, so that only the words show it. The first group of a rule is a name.
var rules = []struct {
	by      By
	refused bool
	words   *regexp.Regexp
}{
	{ByWebhook, true, regexp.MustCompile(`^admission webhook "([^"]+)" denied the request`)},
	{ByWebhook, false, regexp.MustCompile(`^admission webhook "([^"]+)" does not support dry run`)},
	{ByWebhook, false, regexp.MustCompile(`^(?:Internal error occurred: )?failed calling webhook "([^"]+)"`)},
	{ByPolicy, true, regexp.MustCompile(`^(?:\w+AdmissionPolicy|policy) ['"]([^'"]+)['"](?: with binding '[^']*')? denied request`)},
	{ByQuota, true, regexp.MustCompile(`^exceeded quota: ([^, ]+), requested: `)},
	{ByQuota, false, regexp.MustCompile(`^status unknown for quota: ([^, ]+), resources: `)},
	{ByPermissions, true, regexp.MustCompile(`^User "([^"]*)" cannot create resource "jobs"`)},
}

// Judge returns what an error of a create means.
func Judge(err error) Answer {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return Answer{}
	}
	said := status.Status()
	answer := Answer{Refused: lasts(said), Text: line(withoutName(said.Message))}
	if answer.Text == "" {
		answer.Text = strings.TrimSpace(line(string(said.Reason)))
	}
	for _, rule := range rules {
		if found := rule.words.FindStringSubmatch(answer.Text); found != nil {
			answer.By, answer.Name, answer.Refused = rule.by, found[1], rule.refused
			break
		}
	}
	if answer.By == ByQuota && answer.Refused {
		answer.Exceeded = exceeded(answer.Text)
	}
	return answer
}

// lasts reports whether the API server would give the same answer to the same request. Conflicts are about objects that
// the request does not name, such as the use of a quota, and credentials are renewed.
func lasts(said metav1.Status) bool {
	switch said.Reason {
	case metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests,
		metav1.StatusReasonConflict, metav1.StatusReasonUnauthorized:
		return false
	}
	switch said.Code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusConflict, http.StatusUnauthorized:
		return false
	}
	return said.Code >= http.StatusBadRequest && said.Code < http.StatusInternalServerError
}

// named is how the API server begins a message about an object.
var named = regexp.MustCompile(`^\S+(?: "[^"]*")? is (?:forbidden|invalid): `)

func withoutName(message string) string { return named.ReplaceAllString(message, "") }

// maxText is the maximum length of a text of the API server, in bytes.
const maxText = 1024

// line returns a text as one line of at most maxText bytes, without control characters, formats and invalid UTF-8.
func line(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf)
	}), " ")
	const ellipsis = "…"
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText-len(ellipsis)], "") + ellipsis
}

// exceeded returns by how much a request exceeds the resources of a quota: "exceeded quota: NAME, requested: A=1,B=2,
// used: A=5,B=9, limited: A=5,B=10".
func exceeded(text string) map[string]int64 {
	_, rest, _ := strings.Cut(text, ", requested: ")
	requested, rest, _ := strings.Cut(rest, ", used: ")
	used, limited, _ := strings.Cut(rest, ", limited: ")
	over, uses, limits := amounts(requested), amounts(used), amounts(limited)
	for resource := range over {
		use, hasUse := uses[resource]
		limit, hasLimit := limits[resource]
		if !hasUse || !hasLimit {
			delete(over, resource)
			continue
		}
		over[resource] += use - limit
	}
	return over
}

// amounts parses a list like "A=1,B=2". It leaves out what is no whole number.
func amounts(text string) map[string]int64 {
	found := map[string]int64{}
	for each := range strings.SplitSeq(text, ",") {
		resource, amount, _ := strings.Cut(each, "=")
		if n, err := strconv.ParseInt(amount, 10, 64); err == nil {
			found[resource] = n
		}
	}
	return found
}
