// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/doctor"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// password is one that no output may have.
const password = "a-Secret-0f-The-Test"

// standalone is the access to a server, with further fields.
func standalone(address, fields string) string {
	return fmt.Sprintf(`{redisAddress: "", redis: {addresses: ["%s"]%s}}`, address, fields)
}

const withPassword = `, auth: {passwordSecretRef: {name: redis}}, tls: {mode: Disabled}`

// asUser is a server that knows one more user, and the access of that user.
func asUser(t *testing.T, rules ...string) string {
	t.Helper()
	args := append([]string{"--user", "reader", "on", ">" + password}, rules...)
	server := redistest.New(t, redistest.Options{Events: redistest.NoEvents, Args: args})
	return standalone(server.Addr(), `, auth: {username: reader, passwordSecretRef: {name: redis}}, tls: {mode: Disabled}`)
}

// redisFault is something that is wrong with Redis.
type redisFault struct {
	// plant returns fields of the ScaledJob, and a Secret; nil for none.
	plant func(*testing.T) (spec string, secret map[string]string)
	args  []string
	found map[string]string
}

func secured(t *testing.T, pair func(*certificates.Authority) certificates.Pair) (spec string, secret map[string]string) {
	t.Helper()
	authority := certificates.NewAuthority(t)
	server := redistest.New(t, redistest.Options{TLS: &redistest.TLS{Server: pair(authority)}})
	return standalone(server.Addr(), `, tls: {caSecretRef: {name: redis}}`), map[string]string{"ca.crt": string(authority.Certificate())}
}

var redisFaults = map[string]redisFault{
	"the password is wrong": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			server := redistest.New(t, redistest.Options{User: "admin", Args: []string{"--requirepass", "another"}})
			return standalone(server.Addr(), withPassword), map[string]string{"password": password}
		},
		found: map[string]string{"redis": "error: .*AUTH failed. Redis rejected the credentials.*FIX: docs/operations/troubleshooting.md#authfailed"},
	},
	"no password": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			server := redistest.New(t, redistest.Options{User: "admin", Args: []string{"--requirepass", "another"}})
			return standalone(server.Addr(), ""), nil
		},
		found: map[string]string{"redis": "error: .*AUTH failed. Redis requires a password"},
	},
	"a certificate for another name": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return secured(t, func(by *certificates.Authority) certificates.Pair { return by.Server(t, "redis.example") })
		},
		found: map[string]string{"redis": "error: .*TLS failed. The server's certificate is for another name.*It is for redis.example, and valid until"},
	},
	"a certificate that has expired": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return secured(t, func(by *certificates.Authority) certificates.Pair { return by.Expired(t, "127.0.0.1") })
		},
		found: map[string]string{"redis": "error: .*TLS failed. The server's certificate has expired"},
	},
	"a server without TLS": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return standalone(redistest.New(t, redistest.Options{}).Addr(), `, tls: {mode: Enabled}`), nil
		},
		found: map[string]string{"redis": "error: .*TLS failed"},
	},
	"a key of another type": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			server := redistest.New(t, redistest.Options{})
			NewWithT(t).Expect(server.Client().SAdd(t.Context(), "emails", "a").Err()).To(Succeed())
			return standalone(server.Addr(), ""), nil
		},
		found: map[string]string{"redis-keys": `error: The key "emails" has another type.*FIX: .*TYPE "emails"`},
	},
	"a command that is not permitted": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return asUser(t, "~*", "&*", "-@all", "+ping", "+client|tracking"), map[string]string{"password": password}
		},
		found: map[string]string{"redis-keys": `error: "emails": .*FIX: In redis-cli: ACL SETUSER reader .llen`},
	},
	"a key that may not be read": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return asUser(t, "~other", "&*", "+@all"), map[string]string{"password": password}
		},
		found: map[string]string{"redis-keys": `error: "emails": .*FIX: In redis-cli: ACL SETUSER reader '%R~emails'`},
	},
	"no source of changes": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return asUser(t, "~*", "-@all", "+ping", "+llen"), map[string]string{"password": password}
		},
		found: map[string]string{"redis-changes": `warning: .*polls the queue.*FIX: Grant .client.tracking, or set notify-keyspace-events to Kgl`},
	},
	"a node of a Cluster as one server": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return standalone(redistest.New(t, redistest.Options{Cluster: true}).Addr(), ""), nil
		},
		found: map[string]string{"redis-mode": `error: The server is in mode "cluster"`},
	},
	"a Cluster without all slots": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return standalone(redistest.New(t, redistest.Options{Cluster: true}).Addr(), ", mode: Cluster"), nil
		},
		found: map[string]string{"redis-cluster": "error: Only 0 of 16384 slots have a master"},
	},
	"a replica": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			master := redistest.New(t, redistest.Options{})
			host, port, _ := strings.Cut(master.Addr(), ":")
			return standalone(redistest.New(t, redistest.Options{Args: []string{"--replicaof", host + " " + port}}).Addr(), ""), nil
		},
		found: map[string]string{"redis-mode": "warning: The server is a replica"},
	},
	"a master that no sentinel knows": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			all := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
			return standalone(all.Sentinels[0].Addr(), ", mode: Sentinel, sentinel: {masterName: nobody}"), nil
		},
		found: map[string]string{"redis-sentinels": `error: .*knows no master "nobody".*FIX: Correct spec.redis.sentinel.masterName`},
	},
	"an empty key with a similar one": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			server := redistest.New(t, redistest.Options{})
			NewWithT(t).Expect(server.Client().RPush(t.Context(), "bull:emails:wait", "a").Err()).To(Succeed())
			return standalone(server.Addr(), ""), nil
		},
		args:  []string{"--scan"},
		found: map[string]string{"redis-similar": `warning: The key "emails" is empty, .*"bull:emails:wait"`},
	},
	"no notification": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return standalone(redistest.New(t, redistest.Options{Events: redistest.NoEvents}).Addr(), ""), nil
		},
		args:  []string{"--probe"},
		found: map[string]string{"redis-probe": `warning: No notification came for a push to the scratch key "emails:doctor-`},
	},
	"a server that hangs": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			server := redistest.New(t, redistest.Options{})
			NewWithT(t).Expect(server.Pause()).To(Succeed())
			t.Cleanup(func() { _ = server.Resume() })
			return standalone(server.Addr(), ""), nil
		},
		found: map[string]string{"redis": "error: .*Redis did not answer in time"},
	},
	"an authority that is none": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return standalone(redistest.New(t, redistest.Options{}).Addr(), `, tls: {caSecretRef: {name: redis}}`), map[string]string{"ca.crt": "none"}
		},
		found: map[string]string{"redis": `error: The value of the key "ca.crt" of the Secret "redis" contains no PEM certificate.*FIX: docs/operations/troubleshooting.md#secretinvalid`},
	},
	"no Secret with the password": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return standalone(redistest.New(t, redistest.Options{}).Addr(), withPassword), nil
		},
		found: map[string]string{"references": `error: There is no Secret "redis" in the namespace; spec.redis.auth.passwordSecretRef names it`},
	},
	"nothing at the forwarded port": {
		plant: func(t *testing.T) (string, map[string]string) {
			t.Helper()
			return standalone(redistest.New(t, redistest.Options{}).Addr(), ""), nil
		},
		args:  []string{"--redis-address=127.0.0.1:1"},
		found: map[string]string{"redis": "error: 127.0.0.1:1: The connection to Redis was refused.*FIX: Check --redis-address"},
	},
}

// secret creates the Secret that the ScaledJob names.
func (p *patient) secret(content map[string]string) {
	p.t.Helper()
	if content != nil {
		p.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "redis"}, StringData: content})
	}
}

func TestDoctorFindsEachFaultOfRedis(t *testing.T) {
	t.Parallel()
	for name, is := range redisFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, secret := is.plant(t)
			p := newPatient(t, spec)
			p.secret(secret)
			args := append([]string{p.name, "-n", p.namespace}, is.args...)
			p.g.Eventually(func(g Gomega) {
				found := findings(examined(t, g, args...))
				g.Expect(slices.Sorted(maps.Keys(found))).To(Equal(slices.Sorted(maps.Keys(is.found))), "%v", found)
				for id, says := range is.found {
					g.Expect(found[id]).To(MatchRegexp(says))
				}
			}).Should(Succeed())
			text := run(t, append([]string{"doctor"}, args...)...)
			p.g.Expect(text.out + text.errOut).NotTo(ContainSubstring(password))
		})
	}
}

// healthyServers are deployments in which nothing is wrong.
var healthyServers = map[string]func(*testing.T) (spec string, secret map[string]string){
	"one server": func(t *testing.T) (string, map[string]string) {
		t.Helper()
		return standalone(redistest.New(t, redistest.Options{}).Addr(), ""), nil
	},
	"TLS": func(t *testing.T) (string, map[string]string) {
		t.Helper()
		return secured(t, func(by *certificates.Authority) certificates.Pair { return by.Server(t, "127.0.0.1") })
	},
	"the documented permissions": func(t *testing.T) (string, map[string]string) {
		t.Helper()
		return asUser(t, "resetchannels", "-@all", "%R~emails", "&__keyspace@0__:emails", "+ping", "+client|tracking", "+subscribe", "+unsubscribe", "+llen"),
			map[string]string{"password": password}
	},
	"sentinels": func(t *testing.T) (string, map[string]string) {
		t.Helper()
		all := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1})
		return standalone(all.Sentinels[0].Addr(), ", mode: Sentinel, sentinel: {masterName: "+redistest.MasterName+"}"), nil
	},
	"a Cluster": func(t *testing.T) (string, map[string]string) {
		t.Helper()
		all := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
		return standalone(all.Nodes[0].Addr(), ", mode: Cluster"), nil
	},
}

func TestDoctorFindsNothingInHealthyServers(t *testing.T) {
	t.Parallel()
	for name, deploy := range healthyServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, secret := deploy(t)
			p := newPatient(t, spec)
			p.secret(secret)
			report := examined(t, p.g, p.name, "-n", p.namespace)
			p.g.Expect(findings(report)).To(BeEmpty())
			p.g.Expect(report.Checks).To(ContainElement(And(HaveField("ID", "redis-keys"), HaveField("Level", doctor.OK))))
		})
	}
}

// With the operator itself, its Lease and a server, nothing is invented, and what a probe sees is what the operator sees.
func TestDoctorAgreesWithTheOperator(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	p := newPatient(t, standalone(server.Addr(), ""))
	p.g.Expect(admin.Delete(t.Context(), p.lease)).To(Succeed())
	operator.New(t, operator.Options{Cluster: control, Args: []string{
		"--leader-elect", "--leader-election-namespace=" + operator.Namespace, "--leader-election-id=" + p.namespace, "--watch-namespaces=" + p.namespace,
	}})
	p.g.Eventually(func(g Gomega) {
		g.Expect(findings(examined(t, g, p.name, "-n", p.namespace, "--probe", "--scan"))).To(BeEmpty())
		var sj scaledjobv1.ScaledJob
		g.Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(p.scaledJob), &sj)).To(Succeed())
		g.Expect(sj.Status.Conditions).To(ContainElement(And(HaveField("Type", scaledjobv1.ConditionQueueConnected), HaveField("Status", metav1.ConditionTrue))))
	}).Should(Succeed())
	p.g.Expect(server.Client().Keys(t.Context(), "*").Val()).To(BeEmpty(), "the scratch key is deleted")
}

// A forwarded port has another address than the certificate is for.
func TestDoctorThroughAForwardedPort(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	authority := certificates.NewAuthority(t)
	server := redistest.New(t, redistest.Options{TLS: &redistest.TLS{Server: authority.Server(t, "redis.forwarded.svc")}})
	p := newPatient(t, standalone("redis.forwarded.svc:6379", `, tls: {caSecretRef: {name: redis}}`))
	p.secret(map[string]string{"ca.crt": string(authority.Certificate())})
	report := examined(t, g, p.name, "-n", p.namespace)
	g.Expect(findings(report)).To(BeEmpty(), "that an address only works in the cluster is no fault")
	g.Expect(report.OnlyInCluster).To(ContainElement(HavePrefix("TLS, credentials, permissions")))
	_, port, err := net.SplitHostPort(server.Addr())
	g.Expect(err).NotTo(HaveOccurred())
	report = examined(t, g, p.name, "-n", p.namespace, "--redis-address=localhost:"+port)
	g.Expect(findings(report)).To(BeEmpty())
	g.Expect(report.Checks).To(ContainElement(And(HaveField("ID", "redis-keys"), HaveField("Level", doctor.OK))))
}
