// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// secretReader is the role by which the operator reads Secrets, and the binding of it that is shipped.
const secretReader = "scaledjob-operator-secret-reader"

// This has a control plane of its own, since it takes a right from the operator, which logs as much as it can here.
func TestSecretsThatMayNotBeRead(t *testing.T) {
	skip.UnderShort(t, "TestSecretsOfChosenNamespaces has the same permissions")
	t.Parallel()
	p := ownControlPlane(t, "--allow-insecure-redis-tls", "--zap-log-level=10")
	before, deaf, secretless, after := newScaledJobIn(t, p), newScaledJobIn(t, p), newScaledJobIn(t, p), newScaledJobIn(t, p)
	before.create(before.on(newClosedServer(t))...)
	before.expectNoticed()
	// Its Secret is read on behalf of a reconcile, not of a subscription.
	deaf.create(with(deaf.on(newClosedServer(t)), unheard)...)
	deaf.push(1)
	deaf.Update(sjtest.Polling(1))
	deaf.awaitJobs()

	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: secretReader}}
	before.Expect(p.API.Delete(t.Context(), binding)).To(Succeed())

	secretless.createUnverified(newSecureServerOf(t))
	secretless.expectNoticed()
	after.create(after.on(newClosedServer(t))...)
	after.push(1)
	after.awaitFalse(scaledjobv1.ConditionQueueConnected, scaledjobv1.ReasonSecretForbidden, "Allow its ServiceAccount")
	after.Expect(after.jobsEver()).To(BeZero())
	after.allowSecrets()
	after.awaitJobs()
	after.expectNoticed()
	before.Eventually(p.operator.Logs).Should(And(
		ContainSubstring("could not be read again"), ContainSubstring("The operator may not read a Secret any more")))
	before.expectNoticed()
	before.awaitConnected()
}

// unheard has the operator not listen.
func unheard(spec *scaledjobv1.ScaledJobSpec) {
	spec.Notifications = scaledjobv1.NotificationsDisabled
}

// allowSecrets has the operator read the Secrets of the namespace.
func (s *scaledJob) allowSecrets() {
	s.t.Helper()
	s.Expect(s.API.Create(s.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "secret-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: secretReader},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: operator.Namespace, Name: operator.ServiceAccount,
		}},
	})).To(Succeed())
}

// newSecureServerOf starts a server with a certificate that nobody vouches for, where nobody has to sign in.
func newSecureServerOf(t *testing.T) *server {
	t.Helper()
	return newSecureServer(t, certificates.NewAuthority(t).Server(t, "redis.example"), nil)
}

// createUnverified has the operator, which was started with the flag for it, take any certificate of the server.
func (s *scaledJob) createUnverified(server *server) {
	s.t.Helper()
	s.Redis = server.Client()
	s.create(at(server.secureAddr()), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Redis.TLS = &scaledjobv1.RedisTLS{InsecureSkipVerify: true}
	})
}
