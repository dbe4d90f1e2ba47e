// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// oneRedis returns a spec with this Redis.
func oneRedis(redis scaledjobv1.Redis) *scaledjobv1.ScaledJobSpec {
	redis.Mode, redis.Addresses = scaledjobv1.RedisStandalone, []string{address}
	return &scaledjobv1.ScaledJobSpec{Redis: &redis}
}

func reference(name, key string) *scaledjobv1.SecretKeyReference {
	return &scaledjobv1.SecretKeyReference{Name: name, Key: key}
}

var disabled = &scaledjobv1.RedisTLS{Mode: scaledjobv1.RedisTLSDisabled}

func TestEndpoint(t *testing.T) {
	type row struct {
		redis scaledjobv1.Redis
		want  auth.Endpoint
	}
	bubble.Each(t, map[string]row{
		"an address": {want: auth.Endpoint{Address: address}},
		"everything": {
			redis: scaledjobv1.Redis{
				Auth: &scaledjobv1.RedisAuth{Username: "scaledjob", PasswordSecretRef: reference("login", "pass")},
				TLS: &scaledjobv1.RedisTLS{
					CASecretRef: reference("authority", "root"), CertSecretRef: reference("own", "cert"), KeySecretRef: reference("own", "private"),
					ServerName: "redis.example", InsecureSkipVerify: true,
				},
			},
			want: auth.Endpoint{
				Address: address, Namespace: "team",
				Username: "scaledjob", Password: auth.SecretKey{Name: "login", Key: "pass"},
				TLS: auth.TLS{
					Enabled: true, ServerName: "redis.example", SkipVerify: true, CA: auth.SecretKey{Name: "authority", Key: "root"},
					Certificate: auth.SecretKey{Name: "own", Key: "cert"}, PrivateKey: auth.SecretKey{Name: "own", Key: "private"},
				},
			},
		},
		"the usual keys": {
			redis: scaledjobv1.Redis{
				Auth: &scaledjobv1.RedisAuth{PasswordSecretRef: reference("redis", "")},
				TLS: &scaledjobv1.RedisTLS{
					CASecretRef: reference("redis", ""), CertSecretRef: reference("redis", ""), KeySecretRef: reference("redis", ""),
				},
			},
			want: auth.Endpoint{
				Address: address, Namespace: "team", Password: auth.SecretKey{Name: "redis", Key: "password"},
				TLS: auth.TLS{
					Enabled: true, CA: auth.SecretKey{Name: "redis", Key: "ca.crt"},
					Certificate: auth.SecretKey{Name: "redis", Key: "tls.crt"}, PrivateKey: auth.SecretKey{Name: "redis", Key: "tls.key"},
				},
			},
		},
		"a user without a password": {
			redis: scaledjobv1.Redis{Auth: &scaledjobv1.RedisAuth{Username: "anybody"}, TLS: disabled},
			want:  auth.Endpoint{Address: address, Username: "anybody"},
		},
		"TLS with the roots of the system": {
			redis: scaledjobv1.Redis{TLS: &scaledjobv1.RedisTLS{}},
			want:  auth.Endpoint{Address: address, TLS: auth.TLS{Enabled: true}},
		},
		"TLS said": {
			redis: scaledjobv1.Redis{TLS: &scaledjobv1.RedisTLS{Mode: scaledjobv1.RedisTLSEnabled}},
			want:  auth.Endpoint{Address: address, TLS: auth.TLS{Enabled: true}},
		},
		"a mode of a later version": {
			redis: scaledjobv1.Redis{TLS: &scaledjobv1.RedisTLS{Mode: "Preferred"}},
			want:  auth.Endpoint{Address: address, TLS: auth.TLS{Enabled: true}},
		},
		"no TLS": {redis: scaledjobv1.Redis{TLS: disabled}, want: auth.Endpoint{Address: address}},
		"an authority alone": {
			redis: scaledjobv1.Redis{TLS: &scaledjobv1.RedisTLS{CASecretRef: reference("authority", "")}},
			want: auth.Endpoint{
				Address: address, Namespace: "team", TLS: auth.TLS{Enabled: true, CA: auth.SecretKey{Name: "authority", Key: "ca.crt"}},
			},
		},
	}, func(_ *testing.T, g Gomega, c row) {
		c.redis.Database = 7
		endpoint, database, err := endpointOf("team", oneRedis(c.redis))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(endpoint).To(Equal(c.want))
		g.Expect(database).To(Equal(7))
	})
}

// Namespaces share connections without credentials. Connections with Secrets are separate for each namespace.
func TestWhoSharesAnEndpoint(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	of := func(namespace string, spec *scaledjobv1.ScaledJobSpec) auth.Endpoint {
		endpoint, _, err := endpointOf(namespace, spec)
		g.Expect(err).NotTo(HaveOccurred())
		return endpoint
	}
	anonymous, short := oneRedis(scaledjobv1.Redis{}), &scaledjobv1.ScaledJobSpec{RedisAddress: address}
	g.Expect(of("one", anonymous)).To(Equal(of("two", anonymous)))
	g.Expect(of("one", short)).To(Equal(of("two", anonymous)), "both forms mean the same server")
	g.Expect(of("one", oneRedis(scaledjobv1.Redis{Database: 1}))).To(Equal(of("one", anonymous)),
		"the databases of a server share connections")
	g.Expect(of("one", oneRedis(scaledjobv1.Redis{TLS: &scaledjobv1.RedisTLS{}}))).NotTo(Equal(of("one", anonymous)))

	signedIn := func(key string) *scaledjobv1.ScaledJobSpec {
		return oneRedis(scaledjobv1.Redis{Auth: &scaledjobv1.RedisAuth{PasswordSecretRef: reference("redis", key)}, TLS: disabled})
	}
	secret, named := signedIn(""), signedIn(scaledjobv1.DefaultPasswordKey)
	g.Expect(of("one", secret)).To(Equal(of("one", named)))
	g.Expect(of("one", secret)).NotTo(Equal(of("two", secret)), "Secrets of the same name in two namespaces differ")
}

func TestTheDatabaseIsReadAndListenedTo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	spec := oneRedis(scaledjobv1.Redis{Database: 7})
	spec.QueueName = "emails"
	source, err := sourceOf("team", spec, spec.AllQueues())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(source.Database).To(Equal(7))
	g.Expect(keysOf(source.Database, spec.AllQueues())).To(HaveExactElements(HaveField("Database", 7)))
}

func TestEndpointWithoutAnAddress(t *testing.T) {
	bubble.Each(t, map[string]*scaledjobv1.ScaledJobSpec{
		"nothing at all": {},
		"no port":        {RedisAddress: "redis"},
		"no addresses":   {Redis: &scaledjobv1.Redis{}},
		"a URL":          {Redis: &scaledjobv1.Redis{Addresses: []string{"redis://redis:6379"}}},
	}, func(_ *testing.T, g Gomega, spec *scaledjobv1.ScaledJobSpec) {
		endpoint, _, err := endpointOf("team", spec)
		g.Expect(endpoint).To(BeZero())
		g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonUnreachable))
		g.Expect(failure.Classify(err).Message).To(ContainSubstring("host:port"))
	})
}

// Stored under a CRD that did not ask for it, or with tls: and no value, which Kubernetes drops.
func TestCredentialsWithoutTLSSaid(t *testing.T) {
	by := &scaledjobv1.RedisAuth{PasswordSecretRef: reference("redis", "")}
	sentinels := func(access scaledjobv1.RedisSentinelAccess) *scaledjobv1.ScaledJobSpec {
		return &scaledjobv1.ScaledJobSpec{Redis: &scaledjobv1.Redis{
			Mode: scaledjobv1.RedisSentinel, Addresses: []string{address}, Auth: by, TLS: &scaledjobv1.RedisTLS{}, Sentinel: &access,
		}}
	}
	type row struct {
		spec  *scaledjobv1.ScaledJobSpec
		field string
	}
	bubble.Each(t, map[string]row{
		"a password":           {oneRedis(scaledjobv1.Redis{Auth: by}), "to spec.redis,"},
		"a user":               {oneRedis(scaledjobv1.Redis{Auth: &scaledjobv1.RedisAuth{Username: "u"}}), "to spec.redis,"},
		"that of sentinels":    {sentinels(scaledjobv1.RedisSentinelAccess{Auth: by}), "to spec.redis.sentinel,"},
		"said for sentinels":   {sentinels(scaledjobv1.RedisSentinelAccess{Auth: by, TLS: disabled}), ""},
		"none for sentinels":   {sentinels(scaledjobv1.RedisSentinelAccess{}), ""},
		"no password, no TLS":  {oneRedis(scaledjobv1.Redis{}), ""},
		"said for the servers": {oneRedis(scaledjobv1.Redis{Auth: by, TLS: &scaledjobv1.RedisTLS{}}), ""},
	}, func(_ *testing.T, g Gomega, c row) {
		endpoint, _, err := endpointOf("team", c.spec)
		if c.field == "" {
			g.Expect(err).NotTo(HaveOccurred())
			return
		}
		g.Expect(endpoint).To(BeZero())
		g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonTLSFailed))
		g.Expect(failure.Classify(err).Message).To(And(
			ContainSubstring("tls: {mode: Enabled} "+c.field), ContainSubstring("tls: {mode: Disabled}")))
	})
}

func TestEndpointOfADeployment(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	spec := &scaledjobv1.ScaledJobSpec{Redis: &scaledjobv1.Redis{
		Mode: scaledjobv1.RedisSentinel, Addresses: []string{"B:26379", "a:26379", "b:26379"}, Database: 2,
		Auth: &scaledjobv1.RedisAuth{Username: "reader"}, TLS: disabled,
		Sentinel: &scaledjobv1.RedisSentinelAccess{
			MasterName: "jobs", Auth: &scaledjobv1.RedisAuth{PasswordSecretRef: reference("sentinels", "")}, TLS: &scaledjobv1.RedisTLS{ServerName: "s"},
		},
	}}
	found, database, err := endpointOf("team", spec)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(database).To(Equal(2))
	g.Expect(found.Addresses()).To(Equal([]string{"a:26379", "b:26379"}))
	master, sentinel := found.ServerAt("x:6379"), found.SentinelAt("a:26379")
	g.Expect([]auth.Endpoint{master.Named(), sentinel.Named()}).To(HaveEach(found))
	g.Expect(master).To(And(HaveField("Address", "x:6379"), HaveField("Role", auth.RoleMaster),
		HaveField("Username", "reader"), HaveField("Namespace", "team")))
	g.Expect(sentinel).To(And(HaveField("Address", "a:26379"), HaveField("Role", auth.RoleSentinel), HaveField("Namespace", "team"),
		HaveField("Password", auth.SecretKey{Name: "sentinels", Key: "password"}),
		HaveField("TLS", auth.TLS{Enabled: true, ServerName: "s"})))

	spec.Redis.Mode, spec.Redis.Sentinel = scaledjobv1.RedisCluster, nil
	found, _, err = endpointOf("team", spec)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.Mode).To(Equal(auth.ModeCluster))
	g.Expect(found.Namespace).To(BeEmpty(), "no Secret")
	g.Expect(found.ServerAt("x:6379").Role).To(Equal(auth.RoleNode))

	// Stored under a CRD that did not ask for what it lacks.
	spec.Redis.Mode = scaledjobv1.RedisSentinel
	found, _, err = endpointOf("team", spec)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.NeedsSecrets()).To(BeFalse())
	spec.Redis.Addresses = nil
	_, _, err = endpointOf("team", spec)
	g.Expect(failure.Classify(err).Reason).To(Equal(failure.ReasonUnreachable))
}
