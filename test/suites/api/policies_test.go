// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// policies are the files with policies for administrators.
const policies = "../../../config/policies/"

// applyPolicy applies the objects of a file, with bindings for one namespace only, because other tests use the cluster
// too. edit may change an object before.
func applyPolicy(t *testing.T, file, namespace string, edit func(*unstructured.Unstructured)) {
	t.Helper()
	g := NewWithT(t)
	manifests, err := os.ReadFile(policies + file)
	g.Expect(err).NotTo(HaveOccurred())
	admin := newClientOf(t, control.Config())
	for document := range strings.SplitSeq(string(manifests), "\n---\n") {
		encoded, err := yaml.YAMLToJSON([]byte(document))
		g.Expect(err).NotTo(HaveOccurred())
		parsed := &unstructured.Unstructured{}
		g.Expect(parsed.UnmarshalJSON(encoded)).To(Succeed())
		if parsed.GetKind() == "ValidatingAdmissionPolicyBinding" {
			g.Expect(unstructured.SetNestedStringMap(parsed.Object, map[string]string{"kubernetes.io/metadata.name": namespace},
				"spec", "matchResources", "namespaceSelector", "matchLabels")).To(Succeed())
		}
		edit(parsed)
		g.Expect(admin.Create(t.Context(), parsed)).To(Succeed())
		t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(t.Context()), parsed) })
	}
}

// secured is a ScaledJob whose spec.redis has these fields, and TLS.
func secured(g Gomega, namespace, address string, fields map[string]any) client.Object {
	redis := map[string]any{"addresses": []any{address}, "tls": map[string]any{}}
	maps.Copy(redis, fields)
	return typed(g, object(g, at("metadata.namespace", namespace), at("spec.redisAddress", nil), at("spec.redis", redis)))
}

// reference is a field that names a Secret.
func reference(field, secret string) map[string]any {
	return map[string]any{field: map[string]any{"name": secret}}
}

// behindSentinels are fields for a deployment with sentinels that have TLS, of which one has this value.
func behindSentinels(field string, value map[string]any) map[string]any {
	sentinel := map[string]any{"masterName": "jobs", "tls": map[string]any{}}
	sentinel[field] = value
	return map[string]any{"mode": "Sentinel", "sentinel": sentinel}
}

// Who may not read a Secret may not make the operator send it anywhere.
func TestSecretsThatTheWriterMayNotGet(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := newNamespace(t)
	const here = "redis:6379"
	reader, writer := newUser(t, namespace, "edit"), newUser(t, namespace, prefix+"scaledjob-editor")
	stolen := func() client.Object {
		return secured(g, namespace, "192.0.2.1:6379", map[string]any{"auth": reference("passwordSecretRef", "database")})
	}
	g.Eventually(func() error { return try(t.Context(), writer, stolen()) }).Should(Succeed(), "without the policy")
	applyPolicy(t, "readable-secrets.yaml", namespace, func(*unstructured.Unstructured) { /* as it is */ })
	g.Eventually(func() error { return try(t.Context(), writer, stolen()) }).Should(And(
		forbidden(), MatchError(ContainSubstring("spec.redis names Secrets, and you may not get all of them: database"))))

	tls := reference("certSecretRef", "tls")
	tls["keySecretRef"] = map[string]any{"name": "tls"}
	for name, fields := range map[string]map[string]any{
		"an authority": {"tls": reference("caSecretRef", "tls")}, "a certificate": {"tls": tls},
		"a password of sentinels":     behindSentinels("auth", reference("passwordSecretRef", "database")),
		"an authority of sentinels":   behindSentinels("tls", reference("caSecretRef", "tls")),
		"a certificate for sentinels": behindSentinels("tls", tls),
	} {
		g.Expect(try(t.Context(), writer, secured(g, namespace, here, fields))).To(forbidden(), name)
		g.Expect(try(t.Context(), reader, secured(g, namespace, here, fields))).To(Succeed(), name)
	}
	g.Expect(try(t.Context(), writer, secured(g, namespace, here, nil))).To(Succeed(), "no Secret")
	g.Expect(try(t.Context(), writer, object(g, at("metadata.namespace", namespace)))).To(Succeed(), "redisAddress")
	g.Expect(try(t.Context(), newClientOf(t, control.Config()), stolen())).To(Succeed(), "an administrator")

	// An edit of other fields is allowed, and one that sends the Secret elsewhere is not.
	existing := stolen()
	g.Expect(reader.Create(t.Context(), existing)).To(Succeed())
	patch := func(spec string) error {
		return writer.Patch(t.Context(), existing, client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+spec+`}`)))
	}
	g.Expect(patch(`{"threshold":7}`)).To(Succeed())
	g.Expect(patch(`{"redis":{"addresses":["192.0.2.2:6379"]}}`)).To(forbidden())
	g.Expect(patch(`{"redis":null,"redisAddress":"192.0.2.2:6379"}`)).To(Succeed(), "nothing is sent")
}

// Passwords go to listed servers only.
func TestServersThatAreNotListed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	namespace := newNamespace(t)
	user := newUser(t, namespace, "edit")
	password := map[string]any{"auth": reference("passwordSecretRef", "database")}
	at := func(address string) error { return try(t.Context(), user, secured(g, namespace, address, password)) }
	g.Eventually(at).WithArguments("other:6379").Should(Succeed(), "without the policy")
	applyPolicy(t, "listed-servers.yaml", namespace, func(applied *unstructured.Unstructured) {
		if applied.GetKind() == "ConfigMap" {
			g.Expect(unstructured.SetNestedStringMap(applied.Object, map[string]string{namespace: "redis:6379 second:6379"}, "data")).To(Succeed())
		}
	})
	g.Eventually(at).WithArguments("other:6379").Should(And(forbidden(), MatchError(ContainSubstring("listed for this namespace"))))
	g.Eventually(at).WithArguments("redis:6379").Should(Succeed())
	g.Expect(at("second:6379")).To(Succeed())
	g.Expect(at("redis:63790")).To(forbidden())
	toSentinels := behindSentinels("auth", reference("passwordSecretRef", "database"))
	g.Expect(try(t.Context(), user, secured(g, namespace, "other:6379", toSentinels))).To(forbidden(), "the password of sentinels")
	g.Expect(try(t.Context(), user, secured(g, namespace, "redis:6379", toSentinels))).To(Succeed(), "the password of sentinels")
	g.Expect(try(t.Context(), user, secured(g, namespace, "other:6379", nil))).To(Succeed(), "no Secret")

	admin := newClientOf(t, control.Config())
	list := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	list.SetNamespace("scaledjob-operator-system")
	list.SetName("scaledjob-listed-servers")
	g.Expect(admin.Patch(t.Context(), list, client.RawPatch("application/merge-patch+json", []byte(`{"data":null}`)))).To(Succeed())
	g.Eventually(at).WithArguments("redis:6379").Should(forbidden(), "the namespace has no entry")
	g.Expect(admin.Delete(t.Context(), list)).To(Succeed())
	g.Consistently(at).WithArguments("redis:6379").ShouldNot(Succeed(), "there is no list")
}
