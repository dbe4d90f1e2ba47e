// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"miracle.dev/scaledjob-operator/test/kit/operator"
)

func TestOperatorStopsWhileItsCachesWait(t *testing.T) {
	t.Parallel()
	elects := []string{"--leader-elect", "--leader-election-namespace=" + operator.Namespace}
	for name, c := range map[string]struct {
		path string
		args []string
	}{
		"without leader election":           {"/scaledjobs", nil},
		"with leader election":              {"/scaledjobs", elects},
		"nothing is answered":               {"", elects},
		"the schema of the CRD is not read": {"/openapi/v3/apis/batch.miracle.dev/v1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			access, asked := startMute(t, c.path)
			early := startEarly(t, access, c.args...)
			NewWithT(t).Eventually(asked).Should(BeClosed())
			expectEnd(t, early)
		})
	}
}

// startMute starts a proxy of the API server that does not answer requests for a path with this end. The channel is closed
// by the first one.
func startMute(t *testing.T, path string) (access *rest.Config, asked <-chan struct{}) {
	t.Helper()
	first := make(chan struct{})
	tell := sync.OnceFunc(func() { close(first) })
	return startInterceptor(t, func(_ http.ResponseWriter, request *http.Request) (answered bool) {
		if !strings.HasSuffix(request.URL.Path, path) {
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
