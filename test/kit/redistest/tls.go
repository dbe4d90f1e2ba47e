// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"

	"miracle.dev/scaledjob-operator/test/kit/certificates"
)

// TLS is what a server needs that speaks TLS.
type TLS struct {
	// Server is the certificate that the server shows. Server.Client believes any.
	Server certificates.Pair
	// ClientCA is the certificate of the authority that has to vouch for clients, in PEM. Empty
	// means that clients need no certificate.
	ClientCA []byte
	// Client is the certificate that Server.Client shows, where there is a ClientCA.
	Client certificates.Pair
}

// arguments writes the files into a folder and returns the arguments of redis-server to listen.
func (t *TLS) arguments(dir, port string) ([]string, error) {
	if t == nil {
		return []string{"--port", port}, nil
	}
	certificate, key, authority := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")
	for path, content := range map[string][]byte{certificate: t.Server.Certificate, key: t.Server.Key, authority: t.ClientCA} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("writing what TLS needs: %w", err)
		}
	}
	args := []string{"--port", "0", "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key}
	if len(t.ClientCA) == 0 {
		return append(args, "--tls-auth-clients", "no"), nil
	}
	return append(args, "--tls-ca-cert-file", authority, "--tls-auth-clients", "yes"), nil
}

// client returns what Server.Client needs.
func (t *TLS) client() (*tls.Config, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // Nil is how the client library is told to use none.
	}
	config := &tls.Config{InsecureSkipVerify: true}
	if len(t.ClientCA) == 0 {
		return config, nil
	}
	pair, err := tls.X509KeyPair(t.Client.Certificate, t.Client.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the client: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
