// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"k8s.io/client-go/rest"
)

// Proxy stands between clients and an API server. It passes on what its rules leave, credentials included.
type Proxy struct {
	*Injector

	server *httptest.Server
}

// NewProxy starts a proxy of the API server of a client configuration, until the test ends. What is passed on goes
// through the transports that wrap returns.
func NewProxy(tb testing.TB, to *rest.Config, wrap ...func(http.RoundTripper) http.RoundTripper) *Proxy {
	tb.Helper()
	// Whoever calls brings credentials along.
	upstream := rest.AnonymousClientConfig(to)
	target, err := url.Parse(upstream.Host)
	if err != nil {
		tb.Fatal(err)
	}
	trust, err := rest.TLSConfigFor(upstream)
	if err != nil {
		tb.Fatal(err)
	}
	direct := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}
	tb.Cleanup(direct.CloseIdleConnections)
	var transport http.RoundTripper = direct
	for _, each := range wrap {
		transport = each(transport)
	}
	p := &Proxy{Injector: New(transport)}
	silent := log.New(io.Discard, "", 0)
	p.server = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:     p,
		FlushInterval: -1, // a watch event is not kept for the next one
		ErrorHandler:  reset,
		ErrorLog:      silent,
	})
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = silent
	p.server.StartTLS()
	tb.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// reset breaks the stream off without an answer.
func reset(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }

// Config is the client configuration with which to come by the proxy.
func (p *Proxy) Config(direct *rest.Config) *rest.Config {
	config := rest.CopyConfig(direct)
	config.Host = p.server.URL
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	return config
}
