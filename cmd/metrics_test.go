// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"miracle.dev/scaledjob-operator/test/kit/certificates"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// write writes a file in the way of a volume: a new file takes the place of the old one.
func write(t *testing.T, path string, content []byte) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(os.WriteFile(path+".new", content, 0o600)).To(Succeed())
	g.Expect(os.Rename(path+".new", path)).To(Succeed())
}

// writeServer writes the certificate and the private key of the metrics server.
func writeServer(t *testing.T, dir string, pair certificates.Pair) {
	t.Helper()
	write(t, filepath.Join(dir, "tls.key"), pair.Key)
	write(t, filepath.Join(dir, "tls.crt"), pair.Certificate)
}

// serveMetrics serves metrics with these flags until the test ends, and returns the URL. There is no API server that
// could be asked about clients.
func serveMetrics(t *testing.T, options options) (url string) {
	t.Helper()
	g := NewWithT(t)
	options.metricsAddress, options.metricsSecure = "127.0.0.1:0", true
	access := must.Get(newMetricsAccess(options))(g)
	server := must.Get(metricsserver.NewServer(access.server, nil, nil))(g)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		if access.authorities != nil {
			access.authorities.Run(ctx, 1)
		}
		ended <- nil
	}()
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		g.Expect(<-ended).To(Succeed())
		g.Expect(<-ended).To(Succeed())
	})
	bound := func() string { return server.(interface{ GetBindAddr() string }).GetBindAddr() }
	g.Eventually(bound).WithTimeout(30 * time.Second).Should(ContainSubstring(":"))
	return "https://" + bound() + "/metrics"
}

// newClient returns a client with these certificates, which trusts any server, or the authority if there is one.
func newClient(t *testing.T, authority *certificates.Authority, pairs ...certificates.Pair) *http.Client {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: authority == nil}
	if authority != nil {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(authority.Certificate())
	}
	for _, pair := range pairs {
		certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		config.Certificates = append(config.Certificates, certificate)
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// scrape returns an error unless the client gets metrics.
func scrape(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("status %s", response.Status)
	case !bytes.Contains(body, []byte("go_goroutines")):
		return fmt.Errorf("these are no metrics: %s", body)
	}
	return nil
}

func TestMetricsForClientsWithACertificate(t *testing.T) {
	t.Parallel()
	authority, other := certificates.NewAuthority(t), certificates.NewAuthority(t)
	path := filepath.Join(t.TempDir(), "ca.crt")
	write(t, path, authority.Certificate())
	url := serveMetrics(t, options{metricsClientCA: path})
	g := NewWithT(t)
	for name, c := range map[string]struct {
		pairs []certificates.Pair
		says  string
	}{
		"of the authority":       {[]certificates.Pair{authority.Client(t, "prometheus")}, ""},
		"none":                   {nil, "certificate required"},
		"of another authority":   {[]certificates.Pair{other.Client(t, "prometheus")}, "bad certificate"},
		"expired":                {[]certificates.Pair{authority.ExpiredClient(t, "prometheus")}, "bad certificate"},
		"of a server, no client": {[]certificates.Pair{authority.Server(t, "prometheus")}, "bad certificate"},
	} {
		err := scrape(t.Context(), newClient(t, nil, c.pairs...), url)
		if c.says == "" {
			g.Expect(err).NotTo(HaveOccurred(), name)
		} else {
			g.Expect(err).To(MatchError(ContainSubstring(c.says)), name)
		}
	}
}

func TestAuthoritiesOfMetricsClientsChange(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(30 * time.Second)
	first, second := certificates.NewAuthority(t), certificates.NewAuthority(t)
	path := filepath.Join(t.TempDir(), "ca.crt")
	write(t, path, first.Certificate())
	url := serveMetrics(t, options{metricsClientCA: path})
	old, next := newClient(t, nil, first.Client(t, "prometheus")), newClient(t, nil, second.Client(t, "prometheus"))
	g.Expect(scrape(t.Context(), old, url)).To(Succeed())
	g.Expect(scrape(t.Context(), next, url)).NotTo(Succeed())

	for _, spoil := range []func(){
		func() { write(t, path, []byte("no certificate")) },
		func() { write(t, path, nil) },
		func() { g.Expect(os.Remove(path)).To(Succeed()) },
	} {
		spoil()
		g.Consistently(func() error { return scrape(t.Context(), old, url) }).WithTimeout(time.Second).Should(Succeed())
	}

	write(t, path, second.Certificate())
	g.Eventually(func() error { return scrape(t.Context(), next, url) }).Should(Succeed())
	g.Expect(scrape(t.Context(), old, url)).To(MatchError(ContainSubstring("401")), "also on the connection that it has")
	old.CloseIdleConnections()
	g.Expect(scrape(t.Context(), old, url)).To(MatchError(ContainSubstring("bad certificate")))
}

func TestCertificateOfTheMetricsServer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	first, second := certificates.NewAuthority(t), certificates.NewAuthority(t)
	dir := t.TempDir()
	writeServer(t, dir, first.Server(t, "127.0.0.1"))
	clients := filepath.Join(dir, "ca.crt")
	write(t, clients, first.Certificate())
	url := serveMetrics(t, options{metricsCertDir: dir, metricsClientCA: clients})
	client := first.Client(t, "prometheus")
	g.Expect(scrape(t.Context(), newClient(t, first, client), url)).To(Succeed())
	g.Expect(scrape(t.Context(), newClient(t, second, client), url)).NotTo(Succeed())

	writeServer(t, dir, second.Server(t, "127.0.0.1"))
	g.Eventually(func() error { return scrape(t.Context(), newClient(t, second, client), url) }).
		WithTimeout(30 * time.Second).Should(Succeed())
}

func TestFilesForMetricsThatAreOfNoUse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	write(t, garbage, []byte("no certificate"))
	for _, c := range []struct {
		options options
		says    string
	}{
		{options{metricsClientCA: filepath.Join(dir, "absent")}, "-metrics-client-ca-file: open"},
		{options{metricsClientCA: garbage}, "-metrics-client-ca-file: error loading CA bundle"},
		{options{metricsCertDir: dir}, "-metrics-cert-dir: open"},
	} {
		c.options.metricsAddress, c.options.metricsSecure = ":8443", true
		_, err := newMetricsAccess(c.options)
		g.Expect(err).To(MatchError(ContainSubstring("invalid value for flag " + c.says)))
	}
}

func TestWhetherTheAPIServerIsAskedAboutMetrics(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect((&options{metricsAddress: ":8443", metricsSecure: true}).authenticatesMetrics()).To(BeTrue())
	g.Expect((&options{metricsAddress: "0", metricsSecure: true}).authenticatesMetrics()).To(BeFalse())
	g.Expect((&options{metricsAddress: ":8443"}).authenticatesMetrics()).To(BeFalse())
	g.Expect((&options{metricsAddress: ":8443", metricsSecure: true, metricsClientCA: "ca.crt"}).authenticatesMetrics()).To(BeFalse())
}
