// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"net"
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

// secure is a server of this row that speaks TLS and asks who is there, and the
// right way to it.
func (s *scaledJob) secure(authority *certificates.Authority, pair certificates.Pair, clients *certificates.Authority) (*server, []scene.Change) {
	s.t.Helper()
	server := newSecureServer(s.t, pair, clients)
	spec := s.on(server)
	s.putTrust(authority, authority.Client(s.t, "operator"))
	return server, with(spec, at(server.secureAddr()), secured)
}

// secureWell is secure with a right certificate, and clients are asked for one if askClients is set.
func (s *scaledJob) secureWell(askClients bool) (*certificates.Authority, *server, []scene.Change) {
	s.t.Helper()
	authority := certificates.NewAuthority(s.t)
	var clients *certificates.Authority
	if askClients {
		clients = authority
	}
	server, spec := s.secure(authority, authority.Server(s.t, loopback), clients)
	return authority, server, spec
}

// tlsRows are errors of TLS.
func tlsRows() []row {
	const failed = scaledjobv1.ReasonTLSFailed
	return []row{
		{
			situation: "the CA is another one", reason: failed, words: "caSecretRef", state: stalled,
			cure: "the right CA in the Secret",
			stage: func(s *scaledJob) stage {
				other := certificates.NewAuthority(s.t)
				authority, _, spec := s.secureWell(false)
				return stage{
					spec:    spec,
					provoke: func() { s.putTrust(other, other.Client(s.t, "operator")) },
					mend:    func() { s.putTrust(authority, authority.Client(s.t, "operator")) },
				}
			},
		}, {
			situation: "the server's certificate has expired", reason: failed, words: "expired or is not valid yet", state: stalled,
			cure:  "another certificate",
			stage: stageOutOfDate((*certificates.Authority).Expired),
		}, {
			situation: "the server's certificate is not valid yet", reason: failed, words: "expired or is not valid yet", state: stalled,
			cure:  "another certificate",
			stage: stageOutOfDate((*certificates.Authority).Future),
		}, {
			situation: "the server's certificate is for another name", reason: failed, words: "serverName", state: stalled,
			cure: "`tls.serverName`",
			stage: func(s *scaledJob) stage {
				authority := certificates.NewAuthority(s.t)
				_, spec := s.secure(authority, authority.Server(s.t, "redis.example"), nil)
				return stage{spec: spec, mend: func() {
					s.Update(func(spec *scaledjobv1.ScaledJobSpec) { spec.Redis.TLS.ServerName = "redis.example" })
				}}
			},
		}, {
			// Redis waits for the end of a line, which it never finds in a handshake.
			situation: "the server speaks no TLS", reason: scaledjobv1.ReasonUnreachable, words: "{mode: Disabled}", state: reconciling,
			cure: "`tls: {mode: Disabled}`",
			stage: func(s *scaledJob) stage {
				authority := certificates.NewAuthority(s.t)
				spec := with(s.on(newServer(s.t)), secured)
				s.putTrust(authority, authority.Client(s.t, "operator"))
				return stage{spec: spec, mend: func() { s.Update(inClearText) }}
			},
		}, {
			situation: "the server speaks TLS only", reason: scaledjobv1.ReasonUnreachable, words: "If it requires TLS", state: reconciling,
			cure: "`tls`",
			stage: func(s *scaledJob) stage {
				_, server, _ := s.secureWell(false)
				return stage{
					spec: []scene.Change{at(server.secureAddr()), signedIn(tenant)},
					mend: func() { s.Update(secured) },
				}
			},
		}, {
			situation: "the handshake stalls", reason: scaledjobv1.ReasonUnreachable, words: "handshake did not finish in time", state: reconciling,
			cure:  "time",
			stage: stageStall,
		}, {
			situation: "the server asks for a certificate", reason: failed, words: "certSecretRef", state: stalled,
			cure: "`certSecretRef` and `keySecretRef`",
			stage: func(s *scaledJob) stage {
				_, _, spec := s.secureWell(true)
				return stage{spec: spec, mend: func() { s.Update(shown) }}
			},
		}, {
			situation: "the server does not take the certificate", reason: failed, words: "certSecretRef", state: stalled,
			cure: "another certificate in the Secret",
			stage: func(s *scaledJob) stage {
				other := certificates.NewAuthority(s.t)
				authority, _, spec := s.secureWell(true)
				return stage{
					spec:    with(spec, shown),
					provoke: func() { s.putTrust(authority, other.Client(s.t, "operator")) },
					mend:    func() { s.putTrust(authority, authority.Client(s.t, "operator")) },
				}
			},
		}, {
			situation: "`insecureSkipVerify`, without the flag", reason: failed, words: "--allow-insecure-redis-tls", state: stalled,
			cure: "`caSecretRef` instead",
			stage: func(s *scaledJob) stage {
				_, _, spec := s.secureWell(false)
				return stage{
					spec: with(spec, func(spec *scaledjobv1.ScaledJobSpec) {
						spec.Redis.TLS = &scaledjobv1.RedisTLS{InsecureSkipVerify: true}
					}),
					mend: func() { s.Update(secured) },
				}
			},
		},
	}
}

// stageOutOfDate has the server show a certificate that is made so.
func stageOutOfDate(made func(of *certificates.Authority, tb testing.TB, names ...string) certificates.Pair) func(*scaledJob) stage {
	return func(s *scaledJob) stage {
		authority := certificates.NewAuthority(s.t)
		server, spec := s.secure(authority, made(authority, s.t, loopback), nil)
		return stage{spec: spec, mend: func() { server.show(authority.Server(s.t, loopback)) }}
	}
}

// stageStall has the answers of the server held back from the first on.
func stageStall(s *scaledJob) stage {
	_, server, spec := s.secureWell(false)
	proxy := tcpproxy.New(s.t, server.secureAddr())
	return stage{
		spec:    with(spec, at(proxy.Addr())),
		provoke: func() { proxy.Hold(tcpproxy.ToClient) },
		mend:    func() { s.Expect(proxy.Pass()).To(Succeed()) },
	}
}

// credentialRows are errors of those who sign in.
func credentialRows() []row {
	const failed = scaledjobv1.ReasonAuthFailed
	return []row{
		{
			situation: "no password is given", reason: failed, words: "passwordSecretRef", state: stalled,
			cure: "`auth`",
			stage: func(s *scaledJob) stage {
				spec := s.on(newClosedServer(s.t))
				return stage{spec: with(spec, signedOff), mend: func() { s.Update(signedIn(tenant)) }}
			},
		}, {
			situation: "the password is wrong", reason: failed, words: "the password", state: stalled,
			cure: "the right one in the Secret",
			stage: func(s *scaledJob) stage {
				server := newClosedServer(s.t)
				spec := s.on(server)
				right := planted.password()
				server.user(tenant, right, "~*", "&*", "+@all")
				return stage{spec: spec, mend: func() { s.putPassword(right) }}
			},
		}, {
			situation: "the server has been given another password", reason: failed, words: "the password", state: stalled,
			cure: "the old one again", inUse: true,
			stage: func(s *scaledJob) stage {
				server := newClosedServer(s.t)
				spec := s.on(server)
				right, wrong := planted.password(), planted.password()
				server.user(tenant, right, "~*", "&*", "+@all")
				s.putPassword(right)
				return stage{
					spec:    spec,
					provoke: func() { server.permit("resetpass", ">"+wrong); server.expel(tenant) },
					mend:    func() { server.permit("resetpass", ">"+right) },
				}
			},
		}, {
			situation: "the user is off", reason: failed, words: "enabled", state: stalled,
			cure: "`ACL SETUSER … on`", inUse: true,
			stage: func(s *scaledJob) stage {
				server := newClosedServer(s.t)
				spec := s.on(server)
				return stage{
					spec:    spec,
					provoke: func() { server.permit("off"); server.expel(tenant) },
					mend:    func() { server.permit("on") },
				}
			},
		},
	}
}

// secretRows are errors of Secrets.
func secretRows() []row {
	const missing, invalid = scaledjobv1.ReasonSecretNotFound, scaledjobv1.ReasonSecretInvalid
	return []row{
		{
			situation: "the Secret is missing", reason: missing, words: credentials, state: stalled, cure: "the Secret",
			stage: func(s *scaledJob) stage {
				server := newClosedServer(s.t)
				spec, password := s.on(server), planted.password()
				server.user(tenant, password, "~*", "&*", "+@all")
				return stage{
					spec:    spec,
					provoke: func() { s.deleteSecret(credentials) },
					mend:    func() { s.putPassword(password) },
				}
			},
		}, {
			situation: "the key of the Secret is missing", reason: missing, words: scaledjobv1.DefaultPasswordKey, state: stalled,
			cure: "the key",
			stage: func(s *scaledJob) stage {
				server := newClosedServer(s.t)
				spec, password := s.on(server), planted.password()
				server.user(tenant, password, "~*", "&*", "+@all")
				return stage{
					spec:    spec,
					provoke: func() { s.putSecret(credentials, map[string][]byte{"other": []byte(password)}) },
					mend:    func() { s.putPassword(password) },
				}
			},
		}, {
			situation: "the Secret is deleted", reason: missing, words: credentials, state: stalled,
			cure: "the Secret", inUse: true,
			stage: func(s *scaledJob) stage {
				server := newClosedServer(s.t)
				spec, password := s.on(server), planted.password()
				server.user(tenant, password, "~*", "&*", "+@all")
				s.putPassword(password)
				return stage{
					spec:    spec,
					provoke: func() { s.deleteSecret(credentials) },
					mend:    func() { s.putPassword(password) },
				}
			},
		}, {
			situation: "the CA is no certificate", reason: invalid, words: trust, state: stalled, cure: "a certificate in PEM",
			stage: func(s *scaledJob) stage {
				authority, _, spec := s.secureWell(false)
				return stage{
					spec:    spec,
					provoke: func() { s.putSecret(trust, map[string][]byte{scaledjobv1.DefaultCAKey: []byte("none")}) },
					mend:    func() { s.putTrust(authority, authority.Client(s.t, "operator")) },
				}
			},
		}, {
			situation: "the key is that of another certificate", reason: invalid, words: trust, state: stalled, cure: "the pair",
			stage: func(s *scaledJob) stage {
				authority, _, spec := s.secureWell(true)
				right, other := authority.Client(s.t, "operator"), authority.Client(s.t, "other")
				return stage{
					spec: with(spec, shown),
					provoke: func() {
						s.putTrust(authority, certificates.Pair{Certificate: right.Certificate, Key: other.Key})
					},
					mend: func() { s.putTrust(authority, right) },
				}
			},
		},
	}
}

// addressRows are errors of where a ScaledJob leads.
func addressRows() []row {
	const denied = scaledjobv1.ReasonDialDenied
	return []row{
		{
			situation: "the address is in `--redis-deny-cidrs`", reason: denied, words: "--redis-allow-cidrs", state: stalled,
			cure: "another address",
			stage: func(s *scaledJob) stage {
				server := newServer(s.t, "--bind", loopback, deniedHost)
				_, port, err := net.SplitHostPort(server.Addr())
				s.Expect(err).NotTo(HaveOccurred())
				spec := s.on(server)
				return stage{
					spec: with(spec, at(net.JoinHostPort(deniedHost, port))),
					mend: func() { s.Update(at(server.Addr())) },
				}
			},
		}, {
			situation: "the address is that of cloud metadata", reason: denied, words: "some addresses are never allowed", state: stalled,
			cure: "another address",
			stage: func(s *scaledJob) stage {
				server := newServer(s.t)
				return stage{
					spec: with(s.on(server), at("169.254.169.254:6379")),
					mend: func() { s.Update(at(server.Addr())) },
				}
			},
		}, {
			situation: "too many servers in a namespace", reason: scaledjobv1.ReasonTooManyServers,
			words: "--max-redis-servers-per-namespace", state: stalled,
			cure:  "fewer",
			stage: stageCrowd,
		}, {
			situation: "the database does not exist", reason: scaledjobv1.ReasonDatabaseNotFound, words: "spec.redis.database", state: stalled,
			cure: "another number",
			stage: func(s *scaledJob) stage {
				return stage{
					spec: with(s.on(newServer(s.t, "--databases", "4")), inDatabase(9)),
					mend: func() { s.Update(inDatabase(0)) },
				}
			},
		},
	}
}

// stageCrowd has other ScaledJobs of the namespace use as many servers as it may.
func stageCrowd(s *scaledJob) stage {
	spec := s.on(newServer(s.t))
	var others []*scaledJob
	return stage{
		spec: spec,
		provoke: func() {
			for _, name := range []string{"first", "second", "third"} {
				other := s.another(name)
				server := redistest.New(s.t, redistest.Options{})
				other.Redis = server.Client()
				other.create(at(server.Addr()))
				other.expectNoticed()
				others = append(others, other)
			}
			s.Expect(others).To(HaveLen(mostServers))
		},
		mend: func() { others[0].Delete() },
	}
}

// rightRows are errors of what the user may do.
func rightRows() []row {
	const denied = scaledjobv1.ReasonPermissionDenied
	lacks := func(k kind) row {
		return row{
			situation: "the user lacks `" + k.command + "`", reason: denied, words: "Grant it +" + k.command, state: stalled,
			cure: "`+" + k.command + "`",
			stage: func(s *scaledJob) stage {
				server := newClosedServer(s.t)
				s.kind = k
				return stage{
					spec:    s.on(server),
					provoke: func() { server.permit("-" + k.command) },
					mend:    func() { server.permit("+" + k.command) },
				}
			},
		}
	}
	rows := []row{lacks(list)}
	for _, k := range otherKinds() {
		if k.name != "SortedSet, Live" { // It takes the command of Due.
			rows = append(rows, lacks(k))
		}
	}
	revoked := lacks(list)
	revoked.situation, revoked.inUse = "`llen` is taken from the user", true
	return append(rows, revoked, row{
		situation: "the key matches no pattern of the user", reason: denied, words: "%R~<key>", state: stalled,
		cure: "`%R~jobs:*`",
		stage: func(s *scaledJob) stage {
			server := newClosedServer(s.t)
			spec := s.on(server)
			return stage{
				spec:    spec,
				provoke: func() { server.permit("resetkeys", "%R~others:*") },
				mend:    func() { server.permit("%R~jobs:*") },
			}
		},
	}, row{
		situation: "the user lacks `select`, for another database", reason: denied, words: "+select", state: stalled,
		cure: "`+select`",
		stage: func(s *scaledJob) stage {
			server := newClosedServer(s.t)
			spec := with(s.on(server), inDatabase(3))
			s.Redis = server.in(3)
			return stage{
				spec:    spec,
				provoke: func() { server.permit("-select") },
				mend:    func() { server.permit("+select") },
			}
		},
	})
}

// channelRows are errors of what the user may listen to.
func channelRows() []row {
	const denied = scaledjobv1.ReasonPermissionDenied
	return []row{
		{
			situation: "the user lacks `subscribe`", reason: denied, words: "SUBSCRIBE", state: polled, cure: "`+subscribe`",
			stage: func(s *scaledJob) stage {
				server := newClosedServer(s.t)
				spec := s.on(server)
				server.permit("-subscribe")
				return stage{spec: spec, mend: func() { server.permit("+subscribe") }}
			},
		}, {
			situation: "the channel matches no pattern of the user", reason: denied, words: "channel", state: polled,
			cure: "`&__keyspace@0__:jobs:*`",
			stage: func(s *scaledJob) stage {
				server := newClosedServer(s.t)
				spec := s.on(server)
				server.permit("resetchannels", "&others")
				return stage{spec: spec, mend: func() { server.permit("&__keyspace@0__:jobs:*") }}
			},
		},
	}
}
