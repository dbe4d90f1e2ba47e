// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package gobuild

import (
	"bufio"
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"miracle.dev/scaledjob-operator/test/kit/progress"
)

// The command ends only when its child does, which would keep its output open for longer than the test may take.
func TestInterruptedCommandLeavesNothing(t *testing.T) {
	g := NewWithT(t)
	programs, temporary := t.TempDir(), t.TempDir()
	script := "#!/bin/sh\necho > $GOTMPDIR/left\necho > $TMPDIR/left-too\nsleep 3600 &\necho started >&2\nwait\n"
	g.Expect(os.WriteFile(filepath.Join(programs, "go"), []byte(script), 0o755)).To(Succeed())
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	t.Setenv("GOTMPDIR", temporary)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	command := Command{read: func(stderr io.Reader) string {
		lines := bufio.NewScanner(stderr)
		g.Expect(lines.Scan()).To(BeTrue())
		g.Expect(filepath.Glob(filepath.Join(temporary, "*", "left*"))).To(HaveLen(2))
		cancel()
		for lines.Scan() {
		}
		return ""
	}}
	_, err := command.Output(ctx, "build")
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(os.ReadDir(temporary)).To(BeEmpty())
}

// requiring is a build of a module that requires another one, from a proxy.
func requiring(t *testing.T, proxy string) Build {
	t.Helper()
	dir := t.TempDir()
	g := NewWithT(t)
	g.Expect(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example\n\ngo 1.26\n\nrequire module.example/a v1.0.0\n"), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nimport _ \"module.example/a\"\n\nfunc main() {}\n"), 0o600)).To(Succeed())
	env := []string{"GOMODCACHE=" + t.TempDir(), "GOPROXY=" + proxy, "GONOSUMDB=*", "GOFLAGS=-mod=mod"}
	return Build{Dir: dir, Env: env, Packages: []string{"."}}
}

func TestProxyThatStallsIsNamed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	asked := make(chan struct{}, 1)
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		asked <- struct{}{}
		<-request.Context().Done()
	}))
	t.Cleanup(proxy.Close)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	log := gbytes.NewBuffer()
	line := progress.Start(log, "")
	t.Cleanup(line.Stop)
	watch := &watcher{line: line, patience: time.Millisecond}
	said := func() string { return string(log.Contents()) }
	ended := make(chan error)
	build := requiring(t, strings.Replace(proxy.URL, "https://", "https://reader:hunter2@", 1)+"/path,direct")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	trusted := filepath.Join(build.Dir, "certificate")
	g.Expect(os.WriteFile(trusted, certificate, 0o600)).To(Succeed())
	build.Env = append(build.Env, "SSL_CERT_FILE="+trusted)
	go func() {
		_, _, err := build.stale(ctx, watch)
		ended <- err
	}()
	g.Eventually(asked, time.Minute).Should(Receive())
	host := strings.TrimPrefix(proxy.URL, "https://")
	g.Eventually(said).Should(ContainSubstring("GOPROXY is " + host + ",direct. Press Ctrl-C to stop"))
	g.Expect(said()).NotTo(ContainSubstring("hunter2"))
	cancel()
	g.Expect(<-ended).To(MatchError(context.Canceled))
}

func TestFailureWithoutANetworkIsExplained(t *testing.T) {
	t.Parallel()
	for name, proxy := range map[string]string{"refused": "https://127.0.0.1:1", "off": "off"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := requiring(t, proxy).Run(t.Context(), progress.Start(nil, ""))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("\nGo could not download all modules (see go env GOPROXY")))
		})
	}
}

func TestFaultsOfTheNetworkAreCounted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	fault := `a.go:1:2: a@v1: Get "https://proxy.example/a/@v/v1.zip": connection refused` + "\n"
	g.Expect(explain(strings.Repeat(fault, 286))).To(HavePrefix(strings.Repeat(fault, 3) + "and 283 more\nGo could not "))
	g.Expect(explain(strings.Repeat(fault, 3))).To(HavePrefix(strings.Repeat(fault, 3) + "Go could not "))
	mistakes := strings.Repeat("a.go:1:2: undefined: b\n", 9)
	g.Expect(explain(mistakes)).To(Equal(mistakes))
}
