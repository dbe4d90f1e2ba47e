// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package certificates_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

func TestOnlyTheRightCertificateIsBelieved(t *testing.T) {
	t.Parallel()
	authority, other := certificates.NewAuthority(t), certificates.NewAuthority(t)
	for name, test := range map[string]struct {
		pair certificates.Pair
		fits types.GomegaMatcher
	}{
		"right":             {authority.Server(t, "redis", "127.0.0.1"), BeNil()},
		"another name":      {authority.Server(t, "other"), BeAssignableToTypeOf(x509.HostnameError{})},
		"another authority": {other.Server(t, "redis"), BeAssignableToTypeOf(x509.UnknownAuthorityError{})},
		"expired":           {authority.Expired(t, "redis"), BeAssignableToTypeOf(x509.CertificateInvalidError{})},
		"not yet valid":     {authority.Future(t, "redis"), BeAssignableToTypeOf(x509.CertificateInvalidError{})},
		"of a client":       {authority.Client(t, "redis"), Not(BeNil())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			pair := must.Get(tls.X509KeyPair(test.pair.Certificate, test.pair.Key))(g)
			roots := x509.NewCertPool()
			g.Expect(roots.AppendCertsFromPEM(authority.Certificate())).To(BeTrue())
			g.Expect(pair.Leaf.Verify(x509.VerifyOptions{DNSName: "redis", Roots: roots})).Error().To(test.fits)
		})
	}
}
