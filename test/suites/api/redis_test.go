// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// redis are the values of a spec that has this in place of redisAddress.
func redis(content map[string]any) []value {
	return []value{at("spec.redisAddress", nil), at("spec.redis", content)}
}

// inRedis are the fields of a spec that has a Redis with these fields more than its address, written in YAML.
func inRedis(fields string) string {
	return "redisAddress: null\nredis: {addresses: ['redis:6379'], " + fields + "}"
}

// inSentinel are the fields of a spec that has sentinels with these fields more than the name of the master.
func inSentinel(fields string) string {
	return inRedis("mode: Sentinel, sentinel: {masterName: m, " + fields + "}")
}

func TestRedisAccepted(t *testing.T) {
	t.Parallel()
	testAccepted(t, map[string]string{
		"an address alone": "redisAddress: null\nredis: {addresses: ['redis:6379']}",
		"Standalone":       inRedis("mode: Standalone"),
		"sentinels": "redisAddress: null\nredis: {mode: Sentinel, addresses: ['a:26379', 'b:26379'], database: 2, " +
			"sentinel: {masterName: my-master.1, auth: {passwordSecretRef: {name: s}}, tls: {caSecretRef: {name: s}}}}",
		"a cluster":                                  "redisAddress: null\nredis: {mode: Cluster, addresses: ['a:7000', 'b:7000'], database: 0}",
		"first database":                             inRedis("database: 0"),
		"largest database":                           inRedis("database: 2147483647"),
		"a user alone":                               inRedis("tls: {mode: Disabled}, auth: {username: scaledjob}"),
		"a password alone":                           inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {name: redis}}"),
		"user and password":                          inRedis("tls: {mode: Disabled}, auth: {username: scaledjob, passwordSecretRef: {name: redis, key: worker.password_2}}"),
		"a user of other characters":                 inRedis("tls: {mode: Disabled}, auth: {username: 'émile:*@{x}\"'}"),
		"a user of 256 characters":                   inRedis("tls: {mode: Disabled}, auth: {username: " + strings.Repeat("u", 256) + "}"),
		"TLS":                                        inRedis("tls: {}"),
		"TLS with an authority":                      inRedis("tls: {caSecretRef: {name: redis-tls}}"),
		"TLS with a certificate":                     inRedis("tls: {certSecretRef: {name: redis-tls}, keySecretRef: {name: redis-tls}}"),
		"certificate and key elsewhere":              inRedis("tls: {certSecretRef: {name: a, key: c}, keySecretRef: {name: b, key: k}}"),
		"server name":                                inRedis("tls: {serverName: redis.example.com}"),
		"server name that is an IP":                  inRedis("tls: {serverName: '2001:db8::1'}"),
		"no verification":                            inRedis("tls: {insecureSkipVerify: true}"),
		"TLS said":                                   inRedis("auth: {passwordSecretRef: {name: redis}}, tls: {mode: Enabled}"),
		"TLS by default":                             inRedis("auth: {passwordSecretRef: {name: redis}}, tls: {}"),
		"TLS by another field":                       inRedis("auth: {passwordSecretRef: {name: redis}}, tls: {caSecretRef: {name: redis}}"),
		"TLS said with all else":                     inRedis("tls: {mode: Enabled, caSecretRef: {name: s}, certSecretRef: {name: s}, keySecretRef: {name: s}, serverName: r}"),
		"no TLS and no password":                     inRedis("tls: {mode: Disabled}"),
		"no TLS, verified":                           inRedis("tls: {mode: Disabled, insecureSkipVerify: false}"),
		"TLS without a value and without a password": inRedis("tls: null"),
		"TLS to sentinels":                           inSentinel("auth: {passwordSecretRef: {name: redis}}, tls: {}"),
		"no TLS to sentinels":                        inSentinel("auth: {passwordSecretRef: {name: redis}}, tls: {mode: Disabled}"),
		"a Secret with dots":                         inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {name: redis.v1-2.mail}}"),
		"the longest names":                          inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {name: " + strings.Repeat("n", 253) + ", key: " + strings.Repeat("k", 253) + "}}"),
		"everything": inRedis("mode: Standalone, database: 3, auth: {username: u, passwordSecretRef: {name: s, key: p}}, " +
			"tls: {caSecretRef: {name: s, key: a}, certSecretRef: {name: s, key: c}, keySecretRef: {name: s, key: k}, serverName: r, insecureSkipVerify: false}"),
	})
}

func TestRedisRefused(t *testing.T) {
	t.Parallel()
	const (
		oneOfBoth   = "exactly one of redisAddress and redis is required"
		oneAddress  = "mode Standalone takes exactly one address"
		sentinels   = "mode Sentinel needs sentinel.masterName, and no other mode takes sentinel"
		somebody    = "a username or a passwordSecretRef is required"
		bothOrNone  = "certSecretRef and keySecretRef go together: give both or neither"
		secretField = "spec.redis.auth.passwordSecretRef"
		sayTLS      = "Required value: with auth, tls is required: write tls: {mode: Enabled}, or tls: {mode: Disabled}"
		noMore      = "mode Disabled takes no other field of tls"
	)
	testRefused(t, map[string]refusal{
		"both":                             {"redis: {addresses: ['redis:6379']}", "spec.redisAddress", oneOfBoth},
		"neither":                          {"redisAddress: null", "spec.redisAddress", oneOfBoth},
		"empty":                            {"redisAddress: null\nredis: {}", "spec.redis.addresses", "Required value"},
		"no address":                       {"redisAddress: null\nredis: {addresses: []}", "spec.redis.addresses", "should have at least 1 items"},
		"two addresses":                    {"redisAddress: null\nredis: {addresses: ['a:1', 'b:2']}", "spec.redis.addresses", oneAddress},
		"the same address twice":           {"redisAddress: null\nredis: {mode: Standalone, addresses: ['a:1', 'a:1']}", "spec.redis.addresses", oneAddress},
		"another mode":                     {inRedis("mode: Proxy"), "spec.redis.mode", `supported values: "Standalone", "Sentinel", "Cluster"`},
		"sentinels of what":                {inRedis("mode: Sentinel"), "spec.redis", sentinels},
		"sentinels of one server":          {inRedis("sentinel: {masterName: m}"), "spec.redis", sentinels},
		"sentinels of a cluster":           {inRedis("mode: Cluster, sentinel: {masterName: m}"), "spec.redis", sentinels},
		"no master name":                   {inRedis("mode: Sentinel, sentinel: {}"), "spec.redis.sentinel.masterName", "Required value"},
		"odd master name":                  {inRedis("mode: Sentinel, sentinel: {masterName: 'a b'}"), "spec.redis.sentinel.masterName", "should match"},
		"nobody for sentinels":             {inRedis("mode: Sentinel, sentinel: {masterName: m, tls: {}, auth: {}}"), "spec.redis.sentinel.auth", somebody},
		"database of a cluster":            {inRedis("mode: Cluster, database: 1"), "spec.redis.database", "mode Cluster takes no other database than 0"},
		"negative database":                {inRedis("database: -1"), "spec.redis.database", "greater than or equal to 0"},
		"nobody":                           {inRedis("tls: {mode: Disabled}, auth: {}"), "spec.redis.auth", somebody},
		"empty user":                       {inRedis("tls: {mode: Disabled}, auth: {username: ''}"), "spec.redis.auth.username", "at least 1 chars long"},
		"user with a space":                {inRedis("tls: {mode: Disabled}, auth: {username: a b}"), "spec.redis.auth.username", "should match"},
		"user with a new line":             {inRedis(`tls: {mode: Disabled}, auth: {username: "a\nb"}`), "spec.redis.auth.username", "should match"},
		"user with a zero byte":            {inRedis(`tls: {mode: Disabled}, auth: {username: "a\0b"}`), "spec.redis.auth.username", "should match"},
		"user with an escape":              {inRedis(`tls: {mode: Disabled}, auth: {username: "a\x1b[1m"}`), "spec.redis.auth.username", "should match"},
		"user of 257 characters":           {inRedis("tls: {mode: Disabled}, auth: {username: " + strings.Repeat("u", 257) + "}"), "spec.redis.auth.username", "256"},
		"Secret without a name":            {inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {key: password}}"), secretField + ".name", "Required value"},
		"Secret with no name":              {inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {name: ''}}"), secretField + ".name", "at least 1 chars long"},
		"Secret in capitals":               {inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {name: Redis}}"), secretField + ".name", "should match"},
		"Secret elsewhere":                 {inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {name: other/redis}}"), secretField + ".name", "should match"},
		"Secret above":                     {inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {name: ..}}"), secretField + ".name", "should match"},
		"Secret of a long name":            {inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {name: " + strings.Repeat("n", 254) + "}}"), secretField + ".name", "253"},
		"empty key":                        {inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {name: redis, key: ''}}"), secretField + ".key", "at least 1 chars long"},
		"key with a slash":                 {inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {name: redis, key: a/b}}"), secretField + ".key", "should match"},
		"long key":                         {inRedis("tls: {mode: Disabled}, auth: {passwordSecretRef: {name: redis, key: " + strings.Repeat("k", 254) + "}}"), secretField + ".key", "253"},
		"password and no TLS":              {inRedis("auth: {passwordSecretRef: {name: redis}}"), "spec.redis.tls", sayTLS},
		"user and no TLS":                  {inRedis("auth: {username: u}"), "spec.redis.tls", sayTLS},
		"TLS without a value":              {inRedis("auth: {passwordSecretRef: {name: redis}}, tls: null"), "spec.redis.tls", sayTLS},
		"no TLS to sentinels said":         {inSentinel("auth: {passwordSecretRef: {name: redis}}"), "spec.redis.sentinel.tls", sayTLS},
		"TLS to sentinels without a value": {inSentinel("auth: {passwordSecretRef: {name: redis}}, tls: null"), "spec.redis.sentinel.tls", sayTLS},
		"TLS to servers only": {
			inRedis("mode: Sentinel, tls: {}, sentinel: {masterName: m, auth: {username: u}}"), "spec.redis.sentinel.tls", sayTLS,
		},
		"another TLS mode":                     {inRedis("tls: {mode: Preferred}"), "spec.redis.tls.mode", `supported values: "Enabled", "Disabled"`},
		"no TLS and an authority":              {inRedis("tls: {mode: Disabled, caSecretRef: {name: s}}"), "spec.redis.tls", noMore},
		"no TLS and a certificate":             {inRedis("tls: {mode: Disabled, certSecretRef: {name: s}, keySecretRef: {name: s}}"), "spec.redis.tls", noMore},
		"no TLS and a server name":             {inRedis("tls: {mode: Disabled, serverName: r}"), "spec.redis.tls", noMore},
		"no TLS and no verification":           {inRedis("tls: {mode: Disabled, insecureSkipVerify: true}"), "spec.redis.tls", noMore},
		"no TLS to sentinels and an authority": {inSentinel("tls: {mode: Disabled, caSecretRef: {name: s}}"), "spec.redis.sentinel.tls", noMore},
		"certificate without key":              {inRedis("tls: {certSecretRef: {name: redis}}"), "spec.redis.tls", bothOrNone},
		"key without certificate":              {inRedis("tls: {keySecretRef: {name: redis}}"), "spec.redis.tls", bothOrNone},
		"empty server name":                    {inRedis("tls: {serverName: ''}"), "spec.redis.tls.serverName", "at least 1 chars long"},
		"server name with a path":              {inRedis("tls: {serverName: redis/0}"), "spec.redis.tls.serverName", "should match"},
	})
}

// A password belongs into a Secret. Whoever writes it into the spec is told so, before it is stored.
func TestPasswordInTheSpecRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"spec.redis.password", "spec.redis.auth.password", "spec.redis.auth.passwordSecretRef.namespace"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			values := append(redis(map[string]any{
				"addresses": []any{"redis:6379"},
				"auth":      map[string]any{"passwordSecretRef": map[string]any{"name": "redis"}},
				"tls":       map[string]any{},
			}), at(path, "value"))
			err := try(t.Context(), newClient(g), object(g, values...))
			g.Expect(err).To(MatchError(ContainSubstring(`unknown field "` + path + `"`)))
		})
	}
}

// What is asked for by being there, as TLS is by {}, must stay there, and defaults must not say more than is meant.
func TestRedisIsStoredAsWritten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	sj := specified(g, inRedis("tls: {}, auth: {passwordSecretRef: {name: redis}}"))
	sj.SetName("secured")
	g.Expect(api.Create(t.Context(), sj)).To(Succeed())
	want := map[string]any{
		"mode": "Standalone", "addresses": []any{"redis:6379"}, "tls": map[string]any{},
		"auth": map[string]any{"passwordSecretRef": map[string]any{"name": "redis"}},
	}
	key := client.ObjectKeyFromObject(sj)
	g.Expect(api.Get(t.Context(), key, sj)).To(Succeed())
	g.Expect(sj.Object["spec"]).To(And(HaveKeyWithValue("redis", want), Not(HaveKey("redisAddress"))))

	var typed scaledjobv1.ScaledJob
	g.Expect(api.Get(t.Context(), key, &typed)).To(Succeed())
	g.Expect(typed.Spec.Redis.TLS).NotTo(BeNil())
	typed.Labels = map[string]string{"edited": "yes"}
	g.Expect(api.Update(t.Context(), &typed)).To(Succeed())
	g.Expect(api.Get(t.Context(), key, sj)).To(Succeed())
	g.Expect(sj.GetLabels()).To(HaveKey("edited"))
	g.Expect(sj.Object["spec"]).To(HaveKeyWithValue("redis", want))
}

// Objects that were stored under a CRD without the rule can be edited, but not what the rule is about.
func TestPasswordStoredWithoutTLS(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	crd, _ := definition(g)
	renamed(crd, "older.miracle.dev")
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	current := *spec.DeepCopy()
	redis := spec.Properties["redis"]
	redis.XValidations = nil
	spec.Properties["redis"] = redis
	apply := func(spec apiextensionsv1.JSONSchemaProps) {
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
		encoded, err := yaml.Marshal(crd)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(control.Apply(t.Context(), strings.NewReader(string(encoded)))).To(Succeed())
	}
	secured := func(name string) *unstructured.Unstructured {
		sj := specified(g, inRedis("auth: {passwordSecretRef: {name: redis}}"))
		sj.SetAPIVersion("older.miracle.dev/v1")
		sj.SetName(name)
		return sj
	}
	apply(spec)
	old := secured("old")
	g.Expect(api.Create(t.Context(), old)).To(Succeed())
	apply(current)
	g.Eventually(func() error { return try(t.Context(), api, secured("new")) }).Should(MatchError(ContainSubstring("with auth, tls is required")))

	patch := func(fields string) error {
		return api.Patch(t.Context(), old.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(fields)))
	}
	g.Expect(patch(`{"spec":{"threshold":2}}`)).To(Succeed())
	g.Expect(api.Status().Patch(t.Context(), old.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"activeJobs":1,"pendingJobs":0,"succeededJobs":0,"failedJobs":0}}`)))).To(Succeed())
	expectRefused(g, patch(`{"spec":{"redis":{"database":1}}}`), "spec.redis.tls", "with auth, tls is required")
	g.Expect(patch(`{"spec":{"redis":{"database":1,"tls":{"mode":"Disabled"}}}}`)).To(Succeed())
}
