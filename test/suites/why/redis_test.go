// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

const (
	// loopback is the host of all servers, and password that of all users.
	loopback = "127.0.0.1"
	// password is that of all users, and wrong another one. Neither may be in what the operator says.
	password, wrong = "correct horse", "battery staple"
	// group is the consumer group of the streams.
	group = "mailers"
	// eventUnreachable is the event about a server that can't be reached.
	eventUnreachable = "RedisUnreachable"
	// lastSlot is the last slot of a Redis Cluster.
	lastSlot = 16383
)

// unread are the situations in which the operator can't read the queue, or hears of messages late.
func unread() []situation {
	return slices.Concat(
		reaching(), signingIn(), permitting(), encrypting(), dialing(), readingSecrets(), choosing(), electing(), sharding(), streaming(), notifying())
}

// unconnected is the claim that the queue can't be read, and why.
func unconnected(reason string, words ...string) claim {
	return claimed(scaledjobv1.ConditionQueueConnected, no, reason, words...)
}

// connected is the claim that the queue can be read.
func connected(words ...string) claim {
	return claimed(scaledjobv1.ConditionQueueConnected, yes, scaledjobv1.ReasonConnected, words...)
}

// unreadable is a situation in which the queue can't be read, which only a user can change.
func unreadable(name, reason string, words []string, bring, cure func(s *stage)) situation {
	return situation{
		name: name, bring: bring, cure: cure,
		says: unconnected(reason, words...),
		also: []claim{
			claimed(scaledjobv1.ConditionReady, no, reason),
			claimed(scaledjobv1.ConditionStalled, yes, reason),
		},
		event: warning(reason),
	}
}

// unreachable is a situation in which the queue can't be read, and that may end by itself.
func unreachable(name string, words []string, bring, cure func(s *stage)) situation {
	w := unreadable(name, scaledjobv1.ReasonUnreachable, words, bring, cure)
	w.also[1].kind = scaledjobv1.ConditionReconciling
	w.event = warning(eventUnreachable)
	return w
}

// redisOf gives the ScaledJob the field redis instead of redisAddress, with these changes.
func redisOf(address string, changes ...func(*scaledjobv1.Redis)) sjtest.Change {
	return func(spec *scaledjobv1.ScaledJobSpec) {
		spec.RedisAddress, spec.Redis = "", &scaledjobv1.Redis{Addresses: []string{address}}
		for _, change := range changes {
			change(spec.Redis)
		}
	}
}

// naming has a message at the server of the queue, and a ScaledJob that names it with these changes.
func naming(changes ...func(*scaledjobv1.Redis)) func(s *stage) {
	return func(s *stage) { early(1, redisOf(s.Address, changes...))(s) }
}

// renamed has the ScaledJob name the server of the queue with these changes, as a cure.
func renamed(changes ...func(*scaledjobv1.Redis)) func(s *stage) {
	return func(s *stage) { s.Update(redisOf(s.Address, changes...)) }
}

// asUserWho has a message, and a ScaledJob that signs in as a user with these rules.
func asUserWho(rules ...any) func(s *stage) {
	return func(s *stage) {
		s.user(rules...)
		early(1, s.asUser())(s)
	}
}

// permitted changes what the user may do, as a cure.
func permitted(rules ...any) func(s *stage) {
	return func(s *stage) { s.permit(rules...) }
}

// atShared moves the ScaledJob to the shared server.
func atShared(s *stage) { s.Update(redisOf(redisServer.Addr())) }

// proxied has the operator reach a server by a proxy that refuses connections until undo.
func (s *stage) proxied(server *redistest.Server) *tcpproxy.Proxy {
	s.t.Helper()
	proxy := tcpproxy.New(s.t, server.Addr())
	s.Expect(proxy.Refuse()).To(Succeed())
	s.address, s.undo = proxy.Addr(), func() { s.Expect(proxy.Pass()).To(Succeed()) }
	return proxy
}

// reaching are situations of servers that can't be reached, or can't serve.
func reaching() []situation {
	return []situation{
		unreachable("refused", []string{"refused", "Check the port"}, func(s *stage) {
			proxy := tcpproxy.New(s.t, redisServer.Addr())
			s.createWell(sjtest.At(proxy.Addr()))
			s.Expect(proxy.Refuse()).To(Succeed())
			proxy.Cut()
			s.push(2)
			s.undo = func() { s.Expect(proxy.Pass()).To(Succeed()) }
		}, undo).inEveryMode(),
		unreachable("hangs", []string{"did not answer in time"}, func(s *stage) {
			server := redistest.New(s.t, redistest.Options{})
			s.on(server)
			s.push(2)
			s.Expect(server.Pause()).To(Succeed())
			s.create()
			s.undo = func() { s.Expect(server.Resume()).To(Succeed()) }
		}, undo).inEveryMode(),
		unreachable("unknown-host", []string{"cannot be resolved", "DNS"},
			early(1, sjtest.At("redis.nowhere.invalid:6379")), update(sjtest.At(redisServer.Addr()))),
		answering("closes-connections", "broke", ""),
		answering("no-redis", "does not speak the Redis protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"),
		unreachable("too-many-clients", []string{"no more clients", "maxclients"}, func(s *stage) {
			s.on(redistest.New(s.t, redistest.Options{}))
			s.push(1)
			s.redis("config", "set", "maxclients", 1) // which is that of the test
			s.create()
		}, func(s *stage) { s.redis("config", "set", "maxclients", 1000) }),
		unreachable("replica-without-master", []string{"lost its master"}, func(s *stage) {
			s.on(redistest.New(s.t, redistest.Options{}))
			s.push(1)
			s.redis("config", "set", "replica-serve-stale-data", "no")
			s.redis("replicaof", loopback, 1)
			s.create()
		}, func(s *stage) { s.redis("replicaof", "no", "one") }),
	}
}

// answering is an address where somebody else than Redis answers, and closes the connection.
func answering(name, words, answer string) situation {
	return unreachable(name, []string{words}, func(s *stage) {
		s.push(1)
		s.create(sjtest.At(redistest.Listen(s.t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1<<10))
			_, _ = conn.Write([]byte(answer))
		})))
	}, update(sjtest.At(redisServer.Addr())))
}

// redis sends a command to the server of the queue.
func (s *stage) redis(command ...any) {
	s.t.Helper()
	client, single := s.Redis.(*redis.Client)
	s.Expect(single).To(BeTrue())
	s.Expect(client.Do(s.t.Context(), command...).Err()).To(Succeed())
}

// signingIn are situations of users whom the server does not let in.
func signingIn() []situation {
	const failed = scaledjobv1.ReasonAuthFailed
	// The server changes the user and ends the operator's connections, after a while in which all was well.
	changed := func(name, words, rule, right string) situation {
		return unreadable(name, failed, []string{words}, func(s *stage) {
			s.user()
			s.createWell(s.asUser())
			s.permit("resetpass", rule)
			s.redis("client", "kill", "user", s.Namespace)
			s.push(1)
		}, permitted(">"+password, right))
	}
	return []situation{
		unreadable("no-password", failed, []string{"requires a password", "spec.redis.auth.passwordSecretRef"}, func(s *stage) {
			s.on(redistest.New(s.t, redistest.Options{User: "administrator", Args: []string{"--requirepass", password}}))
			s.push(1)
			s.create()
		}, func(s *stage) {
			s.putSecret(map[string]string{scaledjobv1.DefaultPasswordKey: password})
			s.Update(redisOf(s.Address, signedIn("")))
		}),
		secretHolds("wrong-password", failed, []string{"rejected the credentials", "password"},
			map[string]string{scaledjobv1.DefaultPasswordKey: wrong}),
		unreadable("user-is-off", failed, []string{"enabled"}, asUserWho("off"), permitted("on")),
		changed("password-changes-in-redis", "the password", ">"+wrong, "on"),
		changed("user-is-switched-off", "enabled", "off", "on"),
	}
}

// signedIn has the operator sign in as a user, with the password of the Secret redis.
func signedIn(user string) func(*scaledjobv1.Redis) {
	return func(to *scaledjobv1.Redis) {
		to.TLS = &scaledjobv1.RedisTLS{Mode: scaledjobv1.RedisTLSDisabled}
		to.Auth = &scaledjobv1.RedisAuth{Username: user, PasswordSecretRef: &scaledjobv1.SecretKeyReference{Name: "redis"}}
	}
}

// user makes a user of the server who may do everything but what the rules take, and the Secret with the password. The
// name is that of the namespace.
func (s *stage) user(rules ...any) {
	s.t.Helper()
	s.redis(append([]any{"acl", "setuser", s.Namespace, "on", ">" + password, "~*", "&*", "+@all"}, rules...)...)
	rightSecret(s)
}

// permit changes what the user may do.
func (s *stage) permit(rules ...any) {
	s.t.Helper()
	s.redis(append([]any{"acl", "setuser", s.Namespace}, rules...)...)
}

// asUser has the operator sign in as the user.
func (s *stage) asUser() sjtest.Change { return redisOf(s.Address, signedIn(s.Namespace)) }

// permitting are situations of users who may not do what the operator needs, and of keys that can't be read.
func permitting() []situation {
	const denied = scaledjobv1.ReasonPermissionDenied
	// A queue of another type is counted by another command.
	ofType := func(command string, queue scaledjobv1.Queue, add func(s *stage)) situation {
		return unreadable("no-permission-for-"+strings.ReplaceAll(command, "|", "-"), denied, []string{"Grant it +" + command}, func(s *stage) {
			s.user("-" + command)
			add(s)
			s.waiting = 1
			s.create(s.asUser(), func(spec *scaledjobv1.ScaledJobSpec) {
				queue.Name = spec.QueueName
				spec.QueueName, spec.Queues = "", []scaledjobv1.Queue{queue}
			})
		}, permitted("+"+command))
	}
	addScore := func(s *stage) { s.redis("zadd", s.Queue, 1, "message") }
	return []situation{
		unreadable("no-permission-for-llen", denied, []string{"Grant it +llen"},
			asUserWho("-llen"), permitted("+llen")),
		unreadable("no-permission-for-key", denied, []string{"%R~<key>"},
			asUserWho("resetkeys", "~others:*"), permitted("~*")).inEveryMode(),
		unreadable("wrong-type", scaledjobv1.ReasonWrongType, []string{"another type than the spec says"}, func(s *stage) {
			s.Expect(s.Redis.Set(s.t.Context(), s.Queue, "no list", 0).Err()).To(Succeed())
			s.create()
		}, func(s *stage) {
			s.Expect(s.Redis.Del(s.t.Context(), s.Queue).Err()).To(Succeed())
			s.push(2)
		}).inEveryMode(),
		unreadable("wrong-type-of-one-queue", scaledjobv1.ReasonWrongType, []string{`"NAMESPACE:letters" of spec.queues`}, func(s *stage) {
			s.push(2)
			letters := s.Queue[:len(s.Queue)-len("emails")] + "letters"
			s.Expect(s.Redis.Set(s.t.Context(), letters, "no list", 0).Err()).To(Succeed())
			s.undo = func() { s.Expect(s.Redis.Del(s.t.Context(), letters).Err()).To(Succeed()) }
			s.create(func(spec *scaledjobv1.ScaledJobSpec) {
				spec.Queues, spec.QueueName = []scaledjobv1.Queue{{Name: spec.QueueName}, {Name: letters}}, ""
			})
		}, undo),
		ofType("scard", scaledjobv1.Queue{Type: scaledjobv1.QueueSet}, func(s *stage) { s.redis("sadd", s.Queue, "message") }),
		ofType("hlen", scaledjobv1.Queue{Type: scaledjobv1.QueueHash}, func(s *stage) { s.redis("hset", s.Queue, "message", 1) }),
		ofType("zcard", scaledjobv1.Queue{Type: scaledjobv1.QueueSortedSet}, addScore),
		ofType("zcount", scaledjobv1.Queue{
			Type: scaledjobv1.QueueSortedSet, SortedSet: &scaledjobv1.SortedSetQueue{Window: scaledjobv1.WindowDue},
		}, addScore),
		ofType("xlen", scaledjobv1.Queue{Type: scaledjobv1.QueueStream}, func(s *stage) { s.add(1) }),
		ofType("xinfo|groups", scaledjobv1.Queue{
			Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{ConsumerGroup: group},
		}, func(s *stage) {
			s.add(1)
			s.redis("xgroup", "create", s.Queue, group, "0")
		}),
		unreadable("no-permission-for-select", denied, []string{"Grant it +select"}, func(s *stage) {
			s.user("-select")
			options := *redisServer.Client().Options()
			options.DB = 3
			client := redis.NewClient(&options)
			s.t.Cleanup(func() { _ = client.Close() })
			s.Redis = client
			s.push(1)
			s.create(redisOf(s.Address, signedIn(s.Namespace), inDatabase(int32(options.DB))))
		}, permitted("+select")),
		unreadable("no-such-database", scaledjobv1.ReasonDatabaseNotFound, []string{"spec.redis.database"},
			naming(inDatabase(99)), atShared),
	}
}

func inDatabase(number int32) func(*scaledjobv1.Redis) {
	return func(to *scaledjobv1.Redis) { to.Database = number }
}

// encrypting are situations of TLS.
func encrypting() []situation {
	const failed = scaledjobv1.ReasonTLSFailed
	outOfDate := func(name string, made func(*certificates.Authority, testing.TB, ...string) certificates.Pair) situation {
		return unreadable(name, failed, []string{"expired or is not valid yet"}, func(s *stage) {
			authority := certificates.NewAuthority(s.t)
			s.putSecret(s.encryptedBy(authority, redistest.TLS{Server: made(authority, s.t, loopback)}))
			s.create(redisOf(s.Address, secured(trusting)))
			s.undo = func() { s.show(authority.Server(s.t, loopback)) }
		}, undo)
	}
	return []situation{
		// As stored under a CRD without the rule about it. The user has no password, since this operator reads no Secrets.
		unreadable("tls-not-said", failed, []string{
			"spec.redis has auth and no tls", "{mode: Enabled} to spec.redis", "tls: {mode: Disabled} if the server has no TLS",
		}, func(s *stage) {
			s.grant("batch", "jobs", "create")
			naming(func(to *scaledjobv1.Redis) { to.Auth = &scaledjobv1.RedisAuth{Username: "default"} })(s)
		}, update(func(spec *scaledjobv1.ScaledJobSpec) {
			spec.Redis.TLS = &scaledjobv1.RedisTLS{Mode: scaledjobv1.RedisTLSDisabled}
		})).withoutPermissions(),
		unreadable("tls-unverified", failed, []string{"--allow-insecure-redis-tls"}, func(s *stage) {
			s.putSecret(s.encrypted(loopback))
			s.create(redisOf(s.Address, secured(&scaledjobv1.RedisTLS{InsecureSkipVerify: true})))
		}, renamed(secured(trusting))),
		outOfDate("tls-expired", (*certificates.Authority).Expired), outOfDate("tls-not-valid-yet", (*certificates.Authority).Future),
		// Redis waits for the end of a line, which it never finds in a handshake.
		unreachable("tls-with-plain-redis", []string{"set spec.redis.tls to {mode: Disabled}"},
			naming(secured(&scaledjobv1.RedisTLS{})), atShared),
		unreadable("tls-with-plain-server", failed, []string{"answers without TLS", "set spec.redis.tls to {mode: Disabled}"}, func(s *stage) {
			s.push(1)
			greeting := redistest.Listen(s.t, func(conn net.Conn) {
				_, _ = conn.Write([]byte("220 mail.example ready\r\n"))
				_, _ = conn.Read(make([]byte, 1<<10))
			})
			s.create(redisOf(greeting, secured(&scaledjobv1.RedisTLS{})))
		}, atShared),
		unreadable("tls-unknown-authority", failed, []string{"authority that is not trusted", "spec.redis.tls.caSecretRef"}, func(s *stage) {
			_ = s.encrypted(loopback)
			s.putSecret(map[string]string{scaledjobv1.DefaultCAKey: string(certificates.NewAuthority(s.t).Certificate())})
			s.create(redisOf(s.Address, secured(trusting)))
		}, undo),
		unreadable("tls-other-name", failed, []string{"for another name", "spec.redis.tls.serverName"}, func(s *stage) {
			s.putSecret(s.encrypted("redis.example"))
			s.create(redisOf(s.Address, secured(trusting)))
		}, update(func(spec *scaledjobv1.ScaledJobSpec) { spec.Redis.TLS.ServerName = "redis.example" })),
		unreachable("tls-required", []string{"spec.redis.tls"}, func(s *stage) {
			s.putSecret(s.encrypted(loopback))
			s.create()
		}, renamed(secured(trusting))),
		unreachable("tls-handshake-stalls", []string{"handshake did not finish in time"}, func(s *stage) {
			s.putSecret(s.encrypted(loopback))
			proxy := tcpproxy.New(s.t, s.Address)
			proxy.Hold(tcpproxy.ToClient)
			s.undo = func() { s.Expect(proxy.Pass()).To(Succeed()) }
			s.create(redisOf(proxy.Addr(), secured(trusting)))
		}, undo),
		unreadable("tls-certificate-required", failed, []string{"certSecretRef"}, func(s *stage) {
			s.putSecret(s.mutual())
			s.create(redisOf(s.Address, secured(trusting)))
		}, renamed(secured(presenting))),
		unreadable("tls-certificate-rejected", failed, []string{"certSecretRef"}, func(s *stage) {
			secret := s.mutual()
			other := certificates.NewAuthority(s.t).Client(s.t, "operator")
			secret[scaledjobv1.DefaultCertificateKey], secret[scaledjobv1.DefaultPrivateKeyKey] = string(other.Certificate), string(other.Key)
			s.putSecret(secret)
			s.create(redisOf(s.Address, secured(presenting)))
		}, undo),
	}
}

// show has the server of the queue show another certificate from now on.
func (s *stage) show(pair certificates.Pair) {
	s.t.Helper()
	folder := s.t.TempDir()
	certificate, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	s.Expect(os.WriteFile(certificate, pair.Certificate, 0o600)).To(Succeed())
	s.Expect(os.WriteFile(key, pair.Key, 0o600)).To(Succeed())
	s.redis("config", "set", "tls-cert-file", certificate, "tls-key-file", key)
}

// trusting is TLS with the authority in the Secret redis.
var trusting = &scaledjobv1.RedisTLS{CASecretRef: inSecret}

// presenting is TLS with the authority, and with a certificate of the operator, in the Secret redis.
var presenting = &scaledjobv1.RedisTLS{CASecretRef: inSecret, CertSecretRef: inSecret, KeySecretRef: inSecret}

var inSecret = &scaledjobv1.SecretKeyReference{Name: "redis"}

func secured(by *scaledjobv1.RedisTLS) func(*scaledjobv1.Redis) {
	return func(to *scaledjobv1.Redis) { to.TLS = by.DeepCopy() }
}

// encrypted moves the queue to a server that speaks TLS only, with a certificate for this name and a message, and
// returns what the Secret must have. That is stored by undo.
func (s *stage) encrypted(name string) map[string]string {
	s.t.Helper()
	authority := certificates.NewAuthority(s.t)
	return s.encryptedBy(authority, redistest.TLS{Server: authority.Server(s.t, name)})
}

// mutual is encrypted for a server that also asks clients for a certificate.
func (s *stage) mutual() map[string]string {
	s.t.Helper()
	authority := certificates.NewAuthority(s.t)
	own := authority.Client(s.t, "operator")
	secret := s.encryptedBy(authority, redistest.TLS{
		Server: authority.Server(s.t, loopback), ClientCA: authority.Certificate(), Client: own,
	})
	secret[scaledjobv1.DefaultCertificateKey], secret[scaledjobv1.DefaultPrivateKeyKey] = string(own.Certificate), string(own.Key)
	right := maps.Clone(secret)
	s.undo = func() { s.putSecret(right) }
	return secret
}

// encryptedBy is encrypted for a server with these settings.
func (s *stage) encryptedBy(authority *certificates.Authority, settings redistest.TLS) map[string]string {
	s.t.Helper()
	s.on(redistest.New(s.t, redistest.Options{TLS: &settings}))
	s.push(1)
	secret := map[string]string{scaledjobv1.DefaultCAKey: string(authority.Certificate())}
	right := maps.Clone(secret)
	s.undo = func() { s.putSecret(right) }
	return secret
}

// dialing are situations of addresses that the operator does not connect to.
func dialing() []situation {
	const denied = scaledjobv1.ReasonDialDenied
	elsewhere := func(name, host, words string) situation {
		return unreadable(name, denied, []string{words}, func(s *stage) {
			s.push(1)
			_, port, err := net.SplitHostPort(s.Address)
			s.Expect(err).NotTo(HaveOccurred())
			s.create(sjtest.At(net.JoinHostPort(host, port)))
		}, update(sjtest.At(redisServer.Addr())))
	}
	return []situation{
		elsewhere("denied-network", deniedHost, "--redis-allow-cidrs"),
		unreadable("too-many-servers", scaledjobv1.ReasonTooManyServers, []string{"--max-redis-servers-per-namespace"}, func(s *stage) {
			for number, name := range []string{"first", "second", "third"} {
				other := *s
				other.Test = sjtest.NewTest(s.t, timeout, s.Neighbour(name, s.Queue+":"+name))
				other.createWell(redisOf(s.Address, inDatabase(int32(number+1))))
				s.undo = func() { other.Delete() }
			}
			s.push(1)
			s.create()
		}, undo),
		elsewhere("metadata-address", "169.254.169.254", "some addresses are never allowed"),
	}
}

// rightSecret puts the password into the Secret, as a cure.
func rightSecret(s *stage) { s.putSecret(map[string]string{scaledjobv1.DefaultPasswordKey: password}) }

// secretHolds is a situation of a Secret with these values instead of the password.
func secretHolds(name, reason string, words []string, values map[string]string) situation {
	return unreadable(name, reason, words, func(s *stage) {
		s.user()
		s.putSecret(values)
		early(1, s.asUser())(s)
	}, rightSecret)
}

// readingSecrets are situations of Secrets.
func readingSecrets() []situation {
	const missing = scaledjobv1.ReasonSecretNotFound
	invalid := func(name, words string, change func(s *stage, secret map[string]string)) situation {
		return unreadable(name, scaledjobv1.ReasonSecretInvalid, []string{words, `"redis"`}, func(s *stage) {
			secret := s.mutual()
			change(s, secret)
			s.putSecret(secret)
			s.create(redisOf(s.Address, secured(presenting)))
		}, undo)
	}
	return []situation{
		unreadable("no-secret", missing, []string{`no Secret "redis"`}, func(s *stage) {
			s.redis("acl", "setuser", s.Namespace, "on", ">"+password, "~*", "&*", "+@all")
			s.push(1)
			s.create(s.asUser())
		}, rightSecret),
		unreadable("secret-forbidden", scaledjobv1.ReasonSecretForbidden, []string{`may not read the Secret "redis"`}, func(s *stage) {
			s.grant("batch", "jobs", "create")
			asUserWho()(s)
		}, func(s *stage) { s.grant("", "secrets", "get") }).withoutPermissions(),
		unreadable("secret-deleted", missing, []string{`no Secret "redis"`}, func(s *stage) {
			s.user()
			s.createWell(s.asUser())
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "redis"}}
			s.Expect(s.API.Delete(s.t.Context(), secret)).To(Succeed())
			s.expect(unconnected(missing)) // Until then the operator uses the connections that it has.
			s.push(1)
		}, rightSecret),
		invalid("ca-is-no-certificate", "contains no PEM certificate", func(_ *stage, secret map[string]string) {
			secret[scaledjobv1.DefaultCAKey] = "none"
		}),
		invalid("key-of-another-certificate", "matches the private key", func(s *stage, secret map[string]string) {
			secret[scaledjobv1.DefaultPrivateKeyKey] = string(certificates.NewAuthority(s.t).Client(s.t, "operator").Key)
		}),
		secretHolds("no-key-in-secret", missing, []string{`"password"`, `"redis"`}, map[string]string{"other": password}),
		secretHolds("empty-password", scaledjobv1.ReasonSecretInvalid, []string{"is empty", `"redis"`},
			map[string]string{scaledjobv1.DefaultPasswordKey: ""}),
		{
			name: "changed-password-rejected",
			bring: func(s *stage) {
				s.user()
				s.createWell(s.asUser())
				s.putSecret(map[string]string{scaledjobv1.DefaultPasswordKey: wrong})
				s.push(1)
			},
			says: claimed(scaledjobv1.ConditionQueueConnected, yes, scaledjobv1.ReasonSecretRejected,
				"previous values of the Secrets"),
			event: warning(scaledjobv1.ReasonSecretRejected),
			cure:  rightSecret,
		},
	}
}

// choosing are situations of servers of another kind than the spec says.
func choosing() []situation {
	const otherMode = scaledjobv1.ReasonWrongMode
	// The ScaledJob names a sentinel instead of the server.
	ofSentinel := func(name string, words []string, changes ...func(*scaledjobv1.Redis)) situation {
		return unreadable(name, otherMode, words, func(s *stage) {
			r := s.behindSentinel()
			early(1, redisOf(r.Sentinels[0].Addr(), changes...))(s)
		}, renamed())
	}
	return []situation{
		unreadable("server-as-sentinel", otherMode, []string{"addresses of the sentinels", "mode: Standalone"},
			naming(bySentinel(redistest.MasterName)), atShared),
		unreadable("server-as-cluster", otherMode, []string{"not a node of a Redis Cluster", "mode: Standalone"},
			naming(inCluster), atShared),
		ofSentinel("sentinel-as-cluster", []string{"mode: Sentinel"}, inCluster),
		ofSentinel("sentinel-as-server", []string{"that of a sentinel", "mode: Sentinel"}),
		unreadable("cluster-as-server", otherMode, []string{"node of a Redis Cluster", "mode: Cluster"}, func(s *stage) {
			nodes := redistest.NewSharded(s.t, redistest.ShardedOptions{Masters: 2, Replicas: -1})
			s.Redis = redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addresses()})
			owner := must.Get(nodes.Owner(s.t.Context(), nodes.Nodes[0], s.Queue))(s)
			other := nodes.Nodes[0]
			if owner == other {
				other = nodes.Nodes[1]
			}
			s.Address = other.Addr()
			s.push(1)
			s.create()
		}, renamed(inCluster)),
	}
}

func inCluster(to *scaledjobv1.Redis) { to.Mode = scaledjobv1.RedisCluster }

// bySentinel has the operator ask sentinels for the master of this name.
func bySentinel(master string) func(*scaledjobv1.Redis) {
	return func(to *scaledjobv1.Redis) {
		to.Mode, to.Sentinel = scaledjobv1.RedisSentinel, &scaledjobv1.RedisSentinelAccess{MasterName: master}
	}
}

// behindSentinel moves the queue to the master of the shared servers that a sentinel watches.
func (s *stage) behindSentinel() *redistest.Replicated {
	s.t.Helper()
	r := replicated.get(s.t, func(ctx context.Context) (*redistest.Replicated, error) {
		return redistest.StartReplicated(ctx, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	})
	s.on(r.Servers[0])
	return r
}

// electing are situations of servers that sentinels watch, and of replicas.
func electing() []situation {
	const hour, second = time.Hour, time.Second
	return []situation{
		unreadable("unknown-master-name", scaledjobv1.ReasonMasterNotFound, []string{"spec.redis.sentinel.masterName"}, func(s *stage) {
			r := s.behindSentinel()
			s.push(1)
			s.create(redisOf(r.Sentinels[0].Addr(), bySentinel("mymaster")))
		}, func(s *stage) {
			s.Update(redisOf(s.behindSentinel().Sentinels[0].Addr(), bySentinel(redistest.MasterName)))
		}),
		unreachable("no-sentinel-answers", []string{"No sentinel answers"}, func(s *stage) {
			proxy := s.proxied(s.behindSentinel().Sentinels[0])
			s.push(1)
			s.create(redisOf(proxy.Addr(), bySentinel(redistest.MasterName)))
		}, undo),
		unreachable("master-is-down", []string{"say that the master is down"}, func(s *stage) { s.monitored(second) }, undo),
		// The sentinel has no doubt about the master, and only the operator can't reach it.
		unreachable("sentinel-announces-unreachable-address", []string{"ADDRESS", "replica-announce-ip"}, func(s *stage) { s.monitored(hour) }, undo),
		{
			name: "replica",
			bring: func(s *stage) {
				r := s.behindSentinel()
				early(1, redisOf(r.Servers[1].Addr()))(s)
			},
			says: connected("the server is a replica", "mode: Sentinel"),
			cure: renamed(),
			then: wellAnd(connected().lacking("replica")),
		},
	}
}

// monitored has the shared sentinel watch another master, which refuses connections until undo. It counts as down after
// this time.
func (s *stage) monitored(downAfter time.Duration) {
	s.t.Helper()
	sentinel := s.behindSentinel().Sentinels[0]
	server := redistest.New(s.t, redistest.Options{})
	s.on(server)
	s.push(1)
	host, port, err := net.SplitHostPort(s.proxied(server).Addr())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(sentinel.Client().Do(s.t.Context(), "sentinel", "monitor", s.Namespace, host, port, 1).Err()).To(Succeed())
	s.t.Cleanup(func() {
		_ = sentinel.Client().Do(context.WithoutCancel(s.t.Context()), "sentinel", "remove", s.Namespace).Err()
	})
	s.Expect(sentinel.Client().Do(
		s.t.Context(), "sentinel", "set", s.Namespace, "down-after-milliseconds", downAfter.Milliseconds()).Err()).To(Succeed())
	s.create(redisOf(sentinel.Addr(), bySentinel(s.Namespace)))
}

// sharding are situations of Redis Clusters.
func sharding() []situation {
	return []situation{
		unreachable("cluster-without-slots", []string{"have no slots"}, func(s *stage) {
			s.on(redistest.New(s.t, redistest.Options{Cluster: true}))
			s.create(redisOf(s.Address, inCluster))
		}, func(s *stage) {
			s.redis("cluster", "addslotsrange", 0, lastSlot)
			s.pushWhenUp()
		}),
		unreachable("cluster-without-a-slot", []string{"No node of the Redis Cluster has the slot of a key"}, func(s *stage) {
			s.on(redistest.New(s.t, redistest.Options{Cluster: true}))
			slot := must.Get(s.Redis.ClusterKeySlot(s.t.Context(), s.Queue).Result())(s)
			s.redis("cluster", "addslotsrange", 0, lastSlot)
			s.redis("cluster", "delslots", slot)
			s.undo = func() {
				s.redis("cluster", "addslots", slot)
				s.pushWhenUp()
			}
			s.create(redisOf(s.Address, inCluster))
		}, undo),
		unreachable("cluster-announces-unreachable-address", []string{"ADDRESS", "cluster-announce-ip"}, func(s *stage) {
			node := redistest.NewSharded(s.t, redistest.ShardedOptions{Masters: 1, Replicas: -1}).Nodes[0]
			s.on(node)
			s.push(1)
			host, port, err := net.SplitHostPort(s.proxied(node).Addr())
			s.Expect(err).NotTo(HaveOccurred())
			s.redis("config", "set", "cluster-announce-ip", host, "cluster-announce-port", port)
			s.create(redisOf(node.Addr(), inCluster))
		}, undo),
	}
}

// pushWhenUp pushes a message as soon as the Cluster takes it.
func (s *stage) pushWhenUp() {
	s.t.Helper()
	s.Eventually(func() error { return s.Redis.LLen(s.t.Context(), s.Queue).Err() }).Should(Succeed())
	s.push(1)
}

// streaming are situations of streams.
func streaming() []situation {
	const messages = 3
	stream := func(spec *scaledjobv1.ScaledJobSpec) {
		spec.Queues = []scaledjobv1.Queue{{
			Name: spec.QueueName, Type: scaledjobv1.QueueStream, Stream: &scaledjobv1.StreamQueue{ConsumerGroup: group},
		}}
		spec.QueueName = ""
	}
	groupless := situation{
		name: "no-consumer-group", modes: everyMode,
		bring: func(s *stage) {
			s.add(messages)
			s.create(stream)
		},
		says:  unconnected(scaledjobv1.ReasonConsumerGroupNotFound, "has no consumer group", group, "XGROUP CREATE"),
		also:  []claim{claimed(scaledjobv1.ConditionReconciling, yes, scaledjobv1.ReasonConsumerGroupNotFound)},
		event: warning(scaledjobv1.ReasonConsumerGroupNotFound),
		cure:  func(s *stage) { s.redis("xgroup", "create", s.Queue, group, "0") },
	}
	// A worker has taken the messages and ended, and the stream has lost all but one of them.
	trimmed := situation{
		name: "trimmed-stream",
		bring: func(s *stage) {
			s.add(messages)
			s.redis("xgroup", "create", s.Queue, group, "0")
			s.redis("xreadgroup", "group", group, "mailer", "streams", s.Queue, ">")
			s.redis("xtrim", s.Queue, "maxlen", 1)
			s.waiting = 1
			s.create(stream)
		},
		says: connected("trimmed", group, "NAMESPACE:emails", "XAUTOCLAIM"),
		cure: func(s *stage) { s.redis("xautoclaim", s.Queue, group, "mailer", "9999999999", "0") },
		then: wellAnd(connected().lacking("trimmed")),
	}
	return []situation{groupless, trimmed}
}

// add adds messages to a stream.
func (s *stage) add(messages int) {
	s.t.Helper()
	for i := range messages {
		s.redis("xadd", s.Queue, "*", "message", i)
	}
	s.waiting += messages
}

// silent is the claim that there are no notifications.
func silent(status metav1.ConditionStatus, reason string, words ...string) claim {
	return claimed(scaledjobv1.ConditionNotificationsActive, status, reason, words...)
}

// notifying are situations in which the operator hears of messages late, or by tracking alone.
func notifying() []situation {
	subscribed := wellAnd(claimed(scaledjobv1.ConditionNotificationsActive, yes, scaledjobv1.ReasonSubscribed))
	configure := func(s *stage) { s.redis("config", "set", "notify-keyspace-events", "Klg") }
	// tracked waits until Redis tracks the keys, so that the next push proves it.
	tracked := func(s *stage, reason string) { s.expect(silent(no, reason, "Redis tracks the keys")) }
	lacks := func(name, words, rule, right string) situation {
		return situation{
			name: name, bring: asUserWho(rule), cure: permitted(right),
			says: silent(no, scaledjobv1.ReasonPermissionDenied, words),
			then: subscribed,
		}
	}
	return []situation{
		{
			name: "notifications-not-configured",
			bring: func(s *stage) {
				s.on(redistest.New(s.t, redistest.Options{Events: redistest.NoEvents}))
				s.createWell()
				tracked(s, scaledjobv1.ReasonNotConfigured)
				s.push(1)
			},
			says: silent(no, scaledjobv1.ReasonNotConfigured,
				"CONFIG SET notify-keyspace-events", "Meanwhile Redis tracks the keys and notifies the operator of changes"),
			cure: configure,
			then: subscribed,
		},
		{
			name: "notifications-disabled", modes: []scaledjobv1.ScalingMode{scaledjobv1.ModePolling},
			bring: late(1),
			says:  silent(no, scaledjobv1.ReasonDisabled, "spec.notifications is Disabled", "polls the queue"),
			cure:  update(func(spec *scaledjobv1.ScaledJobSpec) { spec.Notifications = scaledjobv1.NotificationsEnabled }),
			then:  subscribed,
		},
		{
			name: "notifications-unverified",
			bring: func(s *stage) {
				s.user("-config")
				s.createWell(s.asUser())
			},
			says: silent(metav1.ConditionUnknown, scaledjobv1.ReasonUnverified, "The first notification verifies it"),
			cure: func(s *stage) { s.push(1) },
			then: subscribed,
		},
		{
			name: "notifications-switched-off",
			bring: func(s *stage) {
				s.on(redistest.New(s.t, redistest.Options{}))
				s.createWell()
				s.expect(subscribed...)
				s.redis("config", "set", "notify-keyspace-events", "")
				s.push(1)
			},
			says: silent(no, scaledjobv1.ReasonNotConfigured, "CONFIG SET notify-keyspace-events Klg"),
			cure: configure,
			then: subscribed,
		},
		{
			name: "notifications-not-observed",
			bring: func(s *stage) {
				s.on(redistest.New(s.t, redistest.Options{Events: redistest.NoEvents}))
				s.user("-config", "-client|tracking")
				s.create(s.asUser(), sjtest.Polling(1))
				s.Eventually(func() []string {
					s.push(1)
					s.Eventually(s.Status).Should(HaveField("QueueDepth", HaveValue(BeEquivalentTo(s.waiting))), s.explain)
					return s.missing([]claim{silent(no, scaledjobv1.ReasonNoEventsObserved)})
				}).Should(BeEmpty(), s.explain)
			},
			says: silent(no, scaledjobv1.ReasonNoEventsObserved, "l for lists", "The next notification verifies it"),
			cure: func(s *stage) {
				configure(s)
				s.push(1)
			},
			then: subscribed,
		},
		{
			name: "too-many-notifications",
			bring: func(s *stage) {
				s.on(redistest.New(s.t, redistest.Options{}))
				s.createWell()
				s.Eventually(func() []string {
					s.Expect(s.Redis.Pipelined(s.t.Context(), func(pipe redis.Pipeliner) error {
						for range 10_000 {
							pipe.Publish(s.t.Context(), s.Channel(), "lpush")
						}
						return nil
					})).Error().NotTo(HaveOccurred())
					return s.missing([]claim{silent(no, scaledjobv1.ReasonTooManyNotifications)})
				}).Should(BeEmpty(), s.explain)
			},
			says: silent(no, scaledjobv1.ReasonTooManyNotifications, "more keyspace notifications"),
			cure: func(s *stage) {
				tracked(s, scaledjobv1.ReasonTooManyNotifications)
				s.push(1)
			},
			then: wellAnd(silent(no, scaledjobv1.ReasonTooManyNotifications, "Redis tracks the keys and notifies the operator of changes")),
		},
		lacks("no-permission-to-subscribe", "SUBSCRIBE", "-subscribe", "+subscribe"),
		lacks("no-permission-for-channel", "the channel __keyspace@0__:", "resetchannels", "&*"),
		{
			name: "no-permission-to-track", modes: []scaledjobv1.ScalingMode{scaledjobv1.ModeTracking},
			bring: asUserWho("-client|tracking"), cure: permitted("+client|tracking"),
			says: silent(no, scaledjobv1.ReasonNotSubscribed, "polls the queue", "+client|tracking"),
			then: wellAnd(silent(no, scaledjobv1.ReasonNotSubscribed, "Redis tracks the keys")),
		},
	}
}
