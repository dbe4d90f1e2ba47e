// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package exactness

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
)

const (
	shortLag = 100 * time.Millisecond
	longLag  = 500 * time.Millisecond
	// frozen is a lag that outlives the test.
	frozen = time.Hour
)

// proxy stands between one client and the API server. It refuses requests, delays
// and ends watches and loses answers, if told so, and passes on all else,
// credentials included.
type proxy struct {
	refusals         *refusals
	expiries         *expiries
	jobs, scaledJobs *cluster.Lag
	losses           *losses
	timeouts         *timeouts
	creates          *lateCreates
	server           *httptest.Server
}

func startProxy(t *testing.T) *proxy {
	t.Helper()
	g := NewWithT(t)
	// Whoever calls brings credentials along.
	upstream := rest.AnonymousClientConfig(control.Config())
	target, err := url.Parse(upstream.Host)
	g.Expect(err).NotTo(HaveOccurred())
	trust, err := rest.TLSConfigFor(upstream)
	g.Expect(err).NotTo(HaveOccurred())
	transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)

	p := &proxy{jobs: cluster.NewLag("jobs"), scaledJobs: cluster.NewLag("scaledjobs"), creates: &lateCreates{next: transport}}
	p.timeouts = &timeouts{next: p.creates}
	p.losses = &losses{next: p.timeouts}
	silent := log.New(io.Discard, "", 0)
	p.expiries = &expiries{next: p.scaledJobs.Wrap(p.jobs.Wrap(p.losses))}
	p.refusals = &refusals{next: p.expiries}
	p.server = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:     p.refusals,
		FlushInterval: -1, // a watch event is not kept for the next one
		ErrorHandler:  reset,
		ErrorLog:      silent,
	})
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = silent
	p.server.StartTLS()
	t.Cleanup(func() {
		p.disconnect()
		p.server.Close()
	})
	return p
}

// reset breaks the stream off without an answer.
func reset(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }

// config is the client configuration with which to come by the proxy.
func (p *proxy) config(direct *rest.Config) *rest.Config {
	config := rest.CopyConfig(direct)
	config.Host = p.server.URL
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	return config
}

// lag delays the watches of Jobs and ScaledJobs.
func (p *proxy) lag(delay time.Duration) {
	p.jobs.Set(delay)
	p.scaledJobs.Set(delay)
}

// disconnect breaks all connections, with whatever is under way on them.
func (p *proxy) disconnect() { p.server.CloseClientConnections() }
