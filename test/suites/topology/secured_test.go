// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// The servers have one password and the sentinels another one. Each error names the field to correct.
func TestPasswordsOfServersAndOfSentinels(t *testing.T) {
	t.Parallel()
	const ofServers, ofSentinels = "server-password", "sentinel-password"
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{
		Replicas: 1, SentinelPassword: ofSentinels,
		Options: redistest.Options{User: "tester", Args: []string{
			"--masteruser", "tester", "--masterauth", "tester", "--requirepass", ofServers,
		}},
	})
	auth := func(key string) *scaledjobv1.RedisAuth {
		return &scaledjobv1.RedisAuth{PasswordSecretRef: &scaledjobv1.SecretKeyReference{Name: "redis", Key: key}}
	}
	for name, c := range map[string]struct {
		server, sentinel *scaledjobv1.RedisAuth
		reason, advice   string
	}{
		"both":                      {auth("server"), auth("sentinel"), scaledjobv1.ReasonConnected, ""},
		"none for sentinels":        {auth("server"), nil, scaledjobv1.ReasonAuthFailed, "spec.redis.sentinel.auth"},
		"the other one":             {auth("server"), auth("server"), scaledjobv1.ReasonAuthFailed, "spec.redis.sentinel.auth"},
		"none for servers":          {nil, auth("sentinel"), scaledjobv1.ReasonAuthFailed, "spec.redis.auth"},
		"the other one for servers": {auth("sentinel"), auth("sentinel"), scaledjobv1.ReasonAuthFailed, "spec.redis.auth"},
		"no such key":               {auth("server"), auth("absent"), scaledjobv1.ReasonSecretNotFound, `"absent"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			namespace, err := shared.Control.CreateNamespace(t.Context(), "secured")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(shared.API.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis"},
				StringData: map[string]string{"server": ofServers, "sentinel": ofSentinels},
			})).To(Succeed())
			sj := &scene.ScaledJob{API: shared.API, Operator: shared.Operator, Namespace: namespace, Name: "emails", Queue: "emails"}
			g.Expect(sj.Create(t.Context(), at(scaledjobv1.RedisSentinel, r.Addresses()...), func(spec *scaledjobv1.ScaledJobSpec) {
				spec.Redis.Auth, spec.Redis.TLS = c.server, inClearText
				spec.Redis.Sentinel.Auth, spec.Redis.Sentinel.TLS = c.sentinel, inClearText
			})).To(Succeed())
			g.Eventually(func() (*metav1.Condition, error) {
				is, err := sj.Get(t.Context())
				return apimeta.FindStatusCondition(is.Status.Conditions, scaledjobv1.ConditionQueueConnected), err
			}).WithTimeout(stopTimeout).Should(And(
				HaveField("Reason", c.reason), HaveField("Message", ContainSubstring(c.advice)),
				HaveField("Message", Not(Or(ContainSubstring(ofServers), ContainSubstring(ofSentinels))))))
			g.Expect(sj.Delete(t.Context())).To(Succeed())
		})
	}
}
