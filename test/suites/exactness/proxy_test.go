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
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/inject"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

const (
	shortLag = 100 * time.Millisecond
	longLag  = 500 * time.Millisecond
	// frozen is a lag that outlives the test.
	frozen = time.Hour
)

// proxy stands between one client and the API server. Rules say which requests go wrong, watches are delayed and ended,
// and all else is passed on, credentials included.
type proxy struct {
	*inject.Injector

	jobs, scaledJobs *cluster.Lag
	server           *httptest.Server
}

func startProxy(t *testing.T) *proxy {
	t.Helper()
	g := NewWithT(t)
	// Whoever calls brings credentials along.
	upstream := rest.AnonymousClientConfig(control.Config())
	target := must.Get(url.Parse(upstream.Host))(g)
	trust := must.Get(rest.TLSConfigFor(upstream))(g)
	transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)

	p := &proxy{jobs: cluster.NewLag("jobs"), scaledJobs: cluster.NewLag("scaledjobs")}
	p.Injector = inject.New(p.scaledJobs.Wrap(p.jobs.Wrap(transport)))
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
	t.Cleanup(func() {
		p.server.CloseClientConnections()
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

// countCreates counts the creates of Jobs from now on.
func (p *proxy) countCreates() *inject.Rule { return p.Add(&inject.Rule{Match: inject.CreatesJob}) }

// holdCreates lets so many creates of Jobs pass, and then holds one of every interval.
func (p *proxy) holdCreates(passing, interval int) *inject.Rule {
	return p.Add(&inject.Rule{Match: inject.CreatesJob, Skip: passing, Every: interval, When: inject.Hold})
}

// expire has the next watch of each of the resources expire, and returns how many have not yet.
func (p *proxy) expire(resources ...string) (left func() int) {
	var rules []*inject.Rule
	for _, resource := range resources {
		rules = append(rules, p.Add(&inject.Rule{Match: inject.WatchOf(resource), Times: 1, Answer: inject.Expired}))
	}
	return func() int {
		return len(slices.DeleteFunc(slices.Clone(rules), func(rule *inject.Rule) bool { return rule.Hits() > 0 }))
	}
}
