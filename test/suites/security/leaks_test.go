// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// The search itself is made when the operator is stopped, for the secrets of all
// tests at once.

func TestTheSearchFindsWhatIsTold(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	var own secrets
	password, pair := own.password(), certificates.NewAuthority(t).Client(t, "operator")
	own.key(pair.Key)
	for _, form := range []string{
		password, base64.StdEncoding.EncodeToString([]byte(password)), url.QueryEscape(password),
		string(pair.Key), base64.StdEncoding.EncodeToString(pair.Key), strconv.Quote(string(pair.Key)),
	} {
		told, err := shared.evidence(t.Context())
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(told).To(HaveKeyWithValue("metrics", ContainSubstring("go_goroutines")))
		s.Expect(own.search(told)).To(Succeed())
		event := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: s.Namespace, Name: "telling"},
			InvolvedObject: corev1.ObjectReference{Namespace: s.Namespace, Name: s.Name},
			Message:        "It is " + form,
		}
		s.Expect(shared.API.Create(t.Context(), event)).To(Succeed())
		told, err = shared.evidence(t.Context())
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(own.search(told)).To(MatchError(Or(ContainSubstring("a password"), ContainSubstring("a private key"))))
		s.Expect(shared.API.Delete(t.Context(), event)).To(Succeed())
	}
}

// Servers say what they do not understand.
func TestServersThatRepeatWhatTheyAreTold(t *testing.T) {
	t.Parallel()
	const lament = "ERR what might this be"
	repeat := func(args []string) string { return "-" + lament + ": '" + strings.Join(args, "' '") + "'\r\n" }
	var greeting atomic.Value
	for name, script := range map[string]redistest.Script{
		"at once": repeat,
		"cut off as Redis does": func(args []string) string {
			answer := repeat(args)
			return answer[:min(len(answer), 128)] + "\r\n"
		},
		"cut off within the password": func(args []string) string {
			answer, _, _ := strings.Cut(repeat(args), "&")
			return answer + "\r\n"
		},
		"as a farewell": func(args []string) string {
			if args[0] == "hello" {
				greeting.Store(args)
				return redistest.Usual
			}
			return repeat(greeting.Load().([]string))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			server := redistest.NewScripted(t, script)
			s.putPassword(planted.password() + strings.Repeat("-", 100))
			s.create(at(server.Addr()), signedIn(tenant))
			s.awaitFalse(scaledjobv1.ConditionQueueConnected, scaledjobv1.ReasonUnreachable, "")
			s.Eventually(func() string { return s.Operator.LogsAbout(s.Namespace) }).Should(ContainSubstring(lament))
		})
	}
}
