// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/examples"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// user is the user that docs/how-to/redis-permissions.md makes, who may read keys that begin with jobs.
	user, queueKey = "scaledjob", "jobs:emails"
	// serverName is in the certificates, instead of the addresses.
	serverName = "redis.example"
)

// permissions are the commands of docs/how-to/redis-permissions.md that make users.
type permissions struct {
	// onServers makes the user on Redis servers, onNodes has what a Cluster takes in addition, and onSentinels makes
	// the user on sentinels.
	onServers, onNodes, onSentinels []string
}

func documentedPermissions(t *testing.T) permissions {
	t.Helper()
	text, err := os.ReadFile("../../../docs/how-to/redis-permissions.md")
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	commands := regexp.MustCompile(`(?m)^ *(ACL SETUSER scaledjob on .*)$`).FindAllSubmatch(text, -1)
	g.Expect(commands).To(HaveLen(2))
	inCluster := regexp.MustCompile("(?m)^ *\\| `mode: Cluster`, on all nodes \\| `([^`]+)` \\|$").FindSubmatch(text)
	g.Expect(inCluster).NotTo(BeNil())
	return permissions{
		onServers: strings.Fields(string(commands[0][1])), onNodes: strings.Fields(strings.ReplaceAll(string(inCluster[1]), `\|`, "|")),
		onSentinels: strings.Fields(string(commands[1][1])),
	}
}

// grant runs a documented command on servers, for a user with this password.
func grant(t *testing.T, servers []*redistest.Server, password string, words ...string) {
	t.Helper()
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = strings.Replace(word, "PASSWORD", password, 1)
	}
	for _, server := range servers {
		NewWithT(t).Expect(server.Client().Do(t.Context(), args...).Err()).To(Succeed())
	}
}

// inClearText are connections without TLS.
var inClearText = &scaledjobv1.RedisTLS{Mode: scaledjobv1.RedisTLSDisabled}

// access returns how the operator signs in by the Secret redis.
func access() *scaledjobv1.RedisAuth {
	return &scaledjobv1.RedisAuth{Username: user, PasswordSecretRef: &scaledjobv1.SecretKeyReference{Name: "redis"}}
}

// signedIn is a ScaledJob whose operator signs in by the Secret redis.
type signedIn struct {
	*WithT
	*sjtest.ScaledJob
	t *testing.T
}

func newSignedIn(t *testing.T, to redis.UniversalClient, secret map[string]string, changes ...sjtest.Change) *signedIn {
	t.Helper()
	s := &signedIn{WithT: NewWithT(t), t: t}
	s.SetDefaultEventuallyTimeout(stopTimeout)
	namespace := must.Get(shared.Control.CreateNamespace(t.Context(), "signed-in"))(s)
	s.Expect(shared.API.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis"}, StringData: secret,
	})).To(Succeed())
	s.ScaledJob = &sjtest.ScaledJob{
		API: shared.API, Operator: shared.Operator, Redis: to, Namespace: namespace, Name: "emails", Queue: queueKey,
	}
	s.Expect(s.Create(t.Context(), append(changes, sjtest.AtMost(1000))...)).To(Succeed())
	s.Expect(s.Observe(t.Context(), shared.Control.Config(), s.Pushed)).To(Succeed())
	t.Cleanup(func() {
		s.Expect(s.Delete(context.WithoutCancel(t.Context()))).To(Succeed())
		s.Expect(to.Close()).To(Succeed())
	})
	return s
}

// awaitEvents pushes messages until the operator has heard of one. The user may not read the setting, so that only this
// verifies notifications.
func (s *signedIn) awaitEvents() {
	s.t.Helper()
	s.Eventually(func() (scaledjobv1.ScalingMode, error) {
		if err := s.Push(s.t.Context(), 1); err != nil {
			return "", err
		}
		is, err := s.Get(s.t.Context())
		if err != nil {
			return "", err
		}
		return is.Status.Mode, nil
	}).WithPolling(time.Second).Should(Equal(scaledjobv1.ModeEvents), s.explain)
	s.gets(0)
}

// gets pushes messages, and waits until there is a Job for each message that was ever pushed.
func (s *signedIn) gets(messages int) {
	s.t.Helper()
	s.Expect(s.Push(s.t.Context(), messages)).To(Succeed())
	s.Eventually(s.Jobs.Created).Should(Equal(s.Pushed()), s.explain)
	s.Expect(s.Jobs.Violation()).To(BeEmpty())
}

func (s *signedIn) explain() string {
	is, err := s.Get(s.t.Context())
	if err != nil {
		return err.Error()
	}
	return sjtest.Explain(&is.Status)
}

// encrypted returns options for servers that speak only TLS, also with each other, the path to the certificate of their
// authority, and the changes that have the operator verify it.
func encrypted(t *testing.T, among string) (opts redistest.Options, authority string, how *scaledjobv1.RedisTLS, secret map[string]string) {
	t.Helper()
	by := certificates.NewAuthority(t)
	authority = filepath.Join(t.TempDir(), "ca.crt")
	NewWithT(t).Expect(os.WriteFile(authority, by.Certificate(), 0o600)).To(Succeed())
	opts = redistest.Options{
		TLS: &redistest.TLS{Server: by.Peer(t, serverName)}, Args: []string{"--" + among, "yes", "--tls-ca-cert-file", authority},
	}
	how = &scaledjobv1.RedisTLS{CASecretRef: &scaledjobv1.SecretKeyReference{Name: "redis"}, ServerName: serverName}
	return opts, authority, how, map[string]string{"password": "secret", "ca.crt": string(by.Certificate())}
}

// Servers and sentinels have TLS, with certificates for another name than their addresses, and only the documented
// users.
func TestTLSAndDocumentedUsersBehindSentinels(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	opts, authority, how, secret := encrypted(t, "tls-replication")
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{
		Replicas: 1, Options: opts, SentinelConfig: []string{"tls-replication yes", "tls-ca-cert-file " + authority},
	})
	documented := documentedPermissions(t)
	grant(t, r.Servers, "secret", documented.onServers...)
	grant(t, r.Sentinels, "secret", documented.onSentinels...)
	to := r.Servers[0].Client()
	s := newSignedIn(t, to, secret, at(scaledjobv1.RedisSentinel, r.Addresses()...), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Redis.Auth, spec.Redis.TLS = access(), how
		spec.Redis.Sentinel.Auth, spec.Redis.Sentinel.TLS = access(), how
	})
	s.awaitEvents()
	s.gets(3)

	g.Expect(to.Wait(t.Context(), 1, stopTimeout).Err()).To(Succeed())
	g.Expect(r.Failover(t.Context(), r.Sentinels[0])).To(Succeed())
	g.Expect(awaitOther(t.Context(), r, r.Servers[0])).To(Succeed())
	s.Redis = r.Servers[1].Client()
	s.gets(3)
}

// The same in a Cluster, in which the slot of the key moves.
func TestTLSAndDocumentedUsersInACluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	opts, _, how, secret := encrypted(t, "tls-cluster")
	nodes := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1, Options: opts})
	documented := documentedPermissions(t)
	grant(t, nodes.Nodes, "secret", append(documented.onServers, documented.onNodes...)...)
	config := nodes.Nodes[0].Client().Options().TLSConfig
	to := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addresses(), TLSConfig: config})
	s := newSignedIn(t, to, secret, at(scaledjobv1.RedisCluster, nodes.Nodes[0].Addr()), func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Redis.Auth, spec.Redis.TLS = access(), how
	})
	s.awaitEvents()
	s.gets(3)
	g.Expect(moveTwice(t.Context(), nodes, queueKey, func(context.Context) error {
		s.gets(2)
		return nil
	})).To(Succeed())
	s.gets(3)
}

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
			namespace := must.Get(shared.Control.CreateNamespace(t.Context(), "secured"))(g)
			g.Expect(shared.API.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis"},
				StringData: map[string]string{"server": ofServers, "sentinel": ofSentinels},
			})).To(Succeed())
			sj := &sjtest.ScaledJob{API: shared.API, Operator: shared.Operator, Namespace: namespace, Name: "emails", Queue: "emails"}
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

// The samples for both modes, but for the addresses and the name of the master.
func TestSamplesGetTheirJobs(t *testing.T) {
	t.Parallel()
	r := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	s := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	behind := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: r.Addresses()})
	inside := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Addresses()})
	t.Cleanup(func() { NewWithT(t).Expect([]error{behind.Close(), inside.Close()}).To(HaveEach(BeNil())) })
	for name, c := range map[string]struct {
		client redis.UniversalClient
		change func(*scaledjobv1.Redis)
		queue  string
	}{
		"invoices": {behind, func(to *scaledjobv1.Redis) {
			to.Addresses, to.Sentinel.MasterName = r.Addresses(), redistest.MasterName
		}, "invoices"},
		"thumbnails": {inside, func(to *scaledjobv1.Redis) { to.Addresses = s.Addresses()[:1] }, "{thumbnails}:waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			namespace := must.Get(shared.Control.CreateNamespace(t.Context(), "samples"))(g)
			sample := sampleNamed(t, name)
			sj := &sjtest.ScaledJob{
				API: shared.API, Operator: shared.Operator, Redis: c.client, Namespace: namespace, Name: name, Queue: c.queue,
			}
			g.Expect(sj.Create(t.Context(), func(spec *scaledjobv1.ScaledJobSpec) {
				*spec = sample.Spec
				c.change(spec.Redis)
			})).To(Succeed())
			sj.Queue = c.queue
			g.Expect(sj.Observe(t.Context(), shared.Control.Config(), sj.Pushed)).To(Succeed())
			g.Expect(sj.Push(t.Context(), 3)).To(Succeed())
			g.Eventually(sj.Jobs.Created).WithTimeout(stopTimeout).Should(Equal(3))
			g.Expect(sj.Jobs.Violation()).To(BeEmpty())
			g.Expect(sj.Delete(t.Context())).To(Succeed())
		})
	}
}

func sampleNamed(t *testing.T, name string) *scaledjobv1.ScaledJob {
	t.Helper()
	g := NewWithT(t)
	all := must.Get(examples.Samples("../../.."))(g)
	for _, each := range all {
		if each.GetName() == name {
			var sj scaledjobv1.ScaledJob
			g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(each.Object, &sj)).To(Succeed())
			return &sj
		}
	}
	t.Fatalf("there is no sample %s", name)
	return nil
}
