// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"miracle.dev/scaledjob-operator/test/kit/operator"
)

func TestOperatorStopsWhileItsCachesWait(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"without leader election": nil,
		"with leader election":    {"--leader-elect", "--leader-election-namespace=" + operator.Namespace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			access, asked := startMute(t)
			early := startEarly(t, writeKubeconfig(t, access), args...)
			g.Eventually(asked).Should(BeClosed())
			g.Expect(early.process.Signal(syscall.SIGTERM)).To(Succeed())
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			g.Expect(early.process.Wait(ctx)).To(Succeed(), "it exits with 0")
			g.Expect(early.log()).NotTo(ContainSubstring("the operator ends"))
		})
	}
}

// startMute starts a proxy of the API server that does not answer who asks for ScaledJobs. The channel is closed by the
// first request for them.
func startMute(t *testing.T) (access *rest.Config, asked <-chan struct{}) {
	t.Helper()
	first := make(chan struct{})
	tell := sync.OnceFunc(func() { close(first) })
	return startInterceptor(t, func(_ http.ResponseWriter, request *http.Request) (answered bool) {
		if !strings.HasSuffix(request.URL.Path, "/scaledjobs") {
			return false
		}
		tell()
		<-request.Context().Done()
		return true
	}), first
}

// startInterceptor starts a proxy of the API server that passes on the requests that are not answered already.
func startInterceptor(t *testing.T, answer func(http.ResponseWriter, *http.Request) (answered bool)) (access *rest.Config) {
	t.Helper()
	g := NewWithT(t)
	direct := separate.Cluster.Config()
	target, err := url.Parse(direct.Host)
	g.Expect(err).NotTo(HaveOccurred())
	trust, err := rest.TLSConfigFor(rest.AnonymousClientConfig(direct))
	g.Expect(err).NotTo(HaveOccurred())
	transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	passOn := &httputil.ReverseProxy{
		Rewrite:   func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport: transport,
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if !answer(w, request) {
			passOn.ServeHTTP(w, request)
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	access = rest.CopyConfig(direct)
	access.Host = server.URL
	access.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return access
}
