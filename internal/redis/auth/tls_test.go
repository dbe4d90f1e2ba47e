// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// The time of an RSA operation grows much faster than the length of the key, and the operation cannot be cancelled. A
// key that fills 256 KiB would take a minute in each handshake.
func TestKeysThatTakeTooLong(t *testing.T) {
	t.Parallel()
	authority := certificates.NewAuthority(t)
	own := authority.Client(t, "operator")
	large := withRSAKey(t, 8193)
	for name, test := range map[string]struct {
		found   values
		refused string
	}{
		"the usual": {
			found: values{ca: string(authority.Certificate()), certificate: string(own.Certificate), privateKey: string(own.Key)},
		},
		"the largest authority": {
			found: values{ca: withRSAKey(t, 8192), certificate: string(own.Certificate), privateKey: string(own.Key)},
		},
		"a large authority among others": {
			found:   values{ca: string(authority.Certificate()) + large, certificate: string(own.Certificate), privateKey: string(own.Key)},
			refused: `"ca.crt" of the Secret "redis" contains a certificate with an RSA key of more than 8192 bits`,
		},
		"a large certificate": {
			found:   values{ca: string(authority.Certificate()), certificate: large, privateKey: string(own.Key)},
			refused: `"tls.crt" of the Secret "redis" contains a certificate with an RSA key of more than 8192 bits`,
		},
		"a large private key": {
			found: values{
				ca: string(authority.Certificate()), certificate: string(own.Certificate),
				privateKey: string(own.Key) + string(bytes.Repeat([]byte{'\n'}, 16<<10)),
			},
			refused: `"tls.key" of the Secret "redis" is larger than 16 KiB`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			endpoint := Endpoint{Address: "redis:6379", TLS: TLS{
				Enabled: true, CA: SecretKey{"redis", "ca.crt"},
				Certificate: SecretKey{"redis", "tls.crt"}, PrivateKey: SecretKey{"redis", "tls.key"},
			}}
			_, err := newCredentials(endpoint, test.found)
			if test.refused == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(HaveField("Reason", failure.ReasonSecretInvalid))
			g.Expect(err).To(HaveField("Message", ContainSubstring(test.refused)))
		})
	}
}

// withRSAKey returns a certificate in PEM with an RSA public key of this size. There is no private key for it.
func withRSAKey(t *testing.T, bits int) string {
	t.Helper()
	g := NewWithT(t)
	signer := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(g)
	modulus := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	modulus.SetBit(modulus, 0, 1)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &rsa.PublicKey{N: modulus, E: 65537}, signer)
	g.Expect(err).NotTo(HaveOccurred())
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

// A server may finish the handshake and then neither read nor send anything.
func TestAServerThatReadsNothingAfterTheHandshakeHoldsUpNobody(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	own := certificates.NewAuthority(t).Server(t, "redis.example")
	pair := must.Get(tls.X509KeyPair(own.Certificate, own.Key))(g)
	near, far := net.Pipe() // It has no buffer: a write waits for a read.
	go func() {
		_ = tls.Server(far, &tls.Config{Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true}).HandshakeContext(t.Context())
	}()
	credentials := &Credentials{tls: &tls.Config{InsecureSkipVerify: true}}
	conn := must.Get(credentials.Secure(t.Context(), near))(g)
	t.Cleanup(func() { _ = near.Close() })
	g.Expect(conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))).To(Succeed())

	failed := make(chan error, 1)
	go func() {
		_, err := conn.Write([]byte("PING\r\n"))
		failed <- err
	}()
	g.Eventually(failed, 30*time.Second).Should(Receive(MatchError(os.ErrDeadlineExceeded)))
}
