// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net"
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

// deployment is what is deployed for a test: servers, and the Secret that the ScaledJob names; nil for none.
type deployment struct {
	t      *testing.T
	secret map[string]string
}

// standalone is the access to a server, with further fields.
func standalone(address, fields string) string {
	return fmt.Sprintf(`{redisAddress: "", redis: {addresses: ["%s"]%s}}`, address, fields)
}

// server starts a server, and returns the access to it, with further fields.
func (d *deployment) server(options redistest.Options, fields string) string {
	d.t.Helper()
	return standalone(redistest.New(d.t, options).Addr(), fields)
}

const withPassword = `, auth: {passwordSecretRef: {name: redis}}, tls: {mode: Disabled}`

// locked are the options of a server that requires a password.
var locked = redistest.Options{User: "admin", Args: []string{"--requirepass", "another"}}

// asUser starts a server that knows one more user, and returns the access of that user.
func (d *deployment) asUser(rules ...string) string {
	d.t.Helper()
	d.secret = map[string]string{"password": password}
	args := append([]string{"--user", "reader", "on", ">" + password}, rules...)
	return d.server(redistest.Options{Events: redistest.NoEvents, Args: args},
		`, auth: {username: reader, passwordSecretRef: {name: redis}}, tls: {mode: Disabled}`)
}

const withAuthority = `, tls: {caSecretRef: {name: redis}}`

// secured starts a server with a certificate, and returns the access that trusts its authority.
func (d *deployment) secured(pair func(*certificates.Authority) certificates.Pair) string {
	d.t.Helper()
	authority := certificates.NewAuthority(d.t)
	d.secret = map[string]string{"ca.crt": string(authority.Certificate())}
	return d.server(redistest.Options{TLS: &redistest.TLS{Server: pair(authority)}}, withAuthority)
}

// containing starts a server with a key, and returns the access to it.
func (d *deployment) containing(command ...any) string {
	d.t.Helper()
	server := redistest.New(d.t, redistest.Options{})
	NewWithT(d.t).Expect(server.Client().Do(d.t.Context(), command...).Err()).To(Succeed())
	return standalone(server.Addr(), "")
}

// redisFault is something that is wrong with Redis.
type redisFault struct {
	// plant returns fields of the ScaledJob.
	plant func(*deployment) (spec string)
	args  []string
	found map[string]string
}

var redisFaults = map[string]redisFault{
	"the password is wrong": {
		plant: func(d *deployment) string {
			d.secret = map[string]string{"password": password}
			return d.server(locked, withPassword)
		},
		found: map[string]string{"redis": "error: .*AUTH failed. Redis rejected the credentials.*FIX: docs/operations/troubleshooting.md#authfailed"},
	},
	"no password": {
		plant: func(d *deployment) string { return d.server(locked, "") },
		found: map[string]string{"redis": "error: .*AUTH failed. Redis requires a password"},
	},
	"a certificate for another name": {
		plant: func(d *deployment) string {
			return d.secured(func(by *certificates.Authority) certificates.Pair { return by.Server(d.t, "redis.example") })
		},
		found: map[string]string{"redis": "error: .*TLS failed. The server's certificate is for another name.*It is for redis.example, and valid until"},
	},
	"a certificate that has expired": {
		plant: func(d *deployment) string {
			return d.secured(func(by *certificates.Authority) certificates.Pair { return by.Expired(d.t, "127.0.0.1") })
		},
		found: map[string]string{"redis": "error: .*TLS failed. The server's certificate has expired"},
	},
	"a server without TLS": {
		plant: func(d *deployment) string { return d.server(redistest.Options{}, `, tls: {mode: Enabled}`) },
		found: map[string]string{"redis": "error: .*TLS failed"},
	},
	"a key of another type": {
		plant: func(d *deployment) string { return d.containing("SADD", "emails", "a") },
		found: map[string]string{"redis-keys": `error: The key "emails" has another type.*FIX: .*TYPE "emails"`},
	},
	"a command that is not permitted": {
		plant: func(d *deployment) string { return d.asUser("~*", "&*", "-@all", "+ping", "+client|tracking") },
		found: map[string]string{"redis-keys": `error: "emails": .*FIX: In redis-cli: ACL SETUSER reader .llen`},
	},
	"a key that may not be read": {
		plant: func(d *deployment) string { return d.asUser("~other", "&*", "+@all") },
		found: map[string]string{"redis-keys": `error: "emails": .*FIX: In redis-cli: ACL SETUSER reader '%R~emails'`},
	},
	"no source of changes": {
		plant: func(d *deployment) string { return d.asUser("~*", "-@all", "+ping", "+llen") },
		found: map[string]string{"redis-changes": `warning: .*polls the queue.*FIX: Grant .client.tracking, or set notify-keyspace-events to Kgl`},
	},
	"a node of a Cluster as one server": {
		plant: func(d *deployment) string { return d.server(redistest.Options{Cluster: true}, "") },
		found: map[string]string{"redis-mode": `error: The server is in mode "cluster"`},
	},
	"a Cluster without all slots": {
		plant: func(d *deployment) string { return d.server(redistest.Options{Cluster: true}, ", mode: Cluster") },
		found: map[string]string{"redis-cluster": "error: Only 0 of 16384 slots have a master"},
	},
	"a replica": {
		plant: func(d *deployment) string {
			host, port, _ := strings.Cut(redistest.New(d.t, redistest.Options{}).Addr(), ":")
			return d.server(redistest.Options{Args: []string{"--replicaof", host + " " + port}}, "")
		},
		found: map[string]string{"redis-mode": "warning: The server is a replica"},
	},
	"a master that no sentinel knows": {
		plant: func(d *deployment) string {
			all := redistest.NewReplicated(d.t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
			return standalone(all.Sentinels[0].Addr(), ", mode: Sentinel, sentinel: {masterName: nobody}")
		},
		found: map[string]string{"redis-sentinels": `error: .*knows no master "nobody".*FIX: Correct spec.redis.sentinel.masterName`},
	},
	"an empty key with a similar one": {
		plant: func(d *deployment) string { return d.containing("RPUSH", "bull:emails:wait", "a") },
		args:  []string{"--scan"},
		found: map[string]string{"redis-similar": `warning: The key "emails" is empty, .*"bull:emails:wait"`},
	},
	"no notification": {
		plant: func(d *deployment) string { return d.server(redistest.Options{Events: redistest.NoEvents}, "") },
		args:  []string{"--probe"},
		found: map[string]string{"redis-probe": `warning: No notification came for a push to the scratch key "emails:doctor-`},
	},
	"a server that hangs": {
		plant: func(d *deployment) string {
			server := redistest.New(d.t, redistest.Options{})
			NewWithT(d.t).Expect(server.Pause()).To(Succeed())
			d.t.Cleanup(func() { _ = server.Resume() })
			return standalone(server.Addr(), "")
		},
		found: map[string]string{"redis": "error: .*Redis did not answer in time"},
	},
	"an authority that is none": {
		plant: func(d *deployment) string {
			d.secret = map[string]string{"ca.crt": "none"}
			return d.server(redistest.Options{}, withAuthority)
		},
		found: map[string]string{"redis": `error: The value of the key "ca.crt" of the Secret "redis" contains no PEM certificate.*FIX: docs/operations/troubleshooting.md#secretinvalid`},
	},
	"no Secret with the password": {
		plant: func(d *deployment) string { return d.server(redistest.Options{}, withPassword) },
		found: map[string]string{"references": `error: There is no Secret "redis" in the namespace; spec.redis.auth.passwordSecretRef names it`},
	},
	"nothing at the forwarded port": {
		plant: func(d *deployment) string { return d.server(redistest.Options{}, "") },
		args:  []string{"--redis-address=127.0.0.1:1"},
		found: map[string]string{"redis": "error: 127.0.0.1:1: The connection to Redis was refused.*FIX: Check --redis-address"},
	},
}

// newPatientWith is newPatient for what is deployed.
func newPatientWith(t *testing.T, deploy func(*deployment) (spec string)) *patient {
	t.Helper()
	d := &deployment{t: t}
	p := newPatient(t, deploy(d))
	p.secret(d.secret)
	return p
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
			p := newPatientWith(t, is.plant)
			p.expectFound(is.found, is.args...)
			text := run(t, append([]string{"doctor", p.name, "-n", p.namespace}, is.args...)...)
			p.g.Expect(text.out + text.errOut).NotTo(ContainSubstring(password))
		})
	}
}

// healthyServers are deployments in which nothing is wrong.
var healthyServers = map[string]func(*deployment) (spec string){
	"one server": func(d *deployment) string { return d.server(redistest.Options{}, "") },
	"TLS": func(d *deployment) string {
		return d.secured(func(by *certificates.Authority) certificates.Pair { return by.Server(d.t, "127.0.0.1") })
	},
	"the documented permissions": func(d *deployment) string {
		return d.asUser("resetchannels", "-@all", "%R~emails", "&__keyspace@0__:emails",
			"+ping", "+client|tracking", "+subscribe", "+unsubscribe", "+llen")
	},
	"sentinels": func(d *deployment) string {
		all := redistest.NewReplicated(d.t, redistest.ReplicatedOptions{Replicas: 1})
		return standalone(all.Sentinels[0].Addr(), ", mode: Sentinel, sentinel: {masterName: "+redistest.MasterName+"}")
	},
	"a Cluster": func(d *deployment) string {
		all := redistest.NewSharded(d.t, redistest.ShardedOptions{Replicas: -1})
		return standalone(all.Nodes[0].Addr(), ", mode: Cluster")
	},
}

func TestDoctorFindsNothingInHealthyServers(t *testing.T) {
	t.Parallel()
	for name, deploy := range healthyServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatientWith(t, deploy)
			report := examined(t, p.g, p.name, "-n", p.namespace)
			p.g.Expect(findings(report)).To(BeEmpty())
			p.g.Expect(report.Checks).To(ContainElement(And(HaveField("ID", "redis-keys"), HaveField("Level", doctor.OK))))
		})
	}
}

// With the operator itself, its Lease and a server, nothing is invented, and what a probe sees is what the operator
// sees.
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
