// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package download

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

const content = "the content of a program"

var digest = func() string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}()

// serve answers requests at the returned address. The client knows the certificate of the server, and is patient, since a
// machine may be busy.
func serve(t *testing.T, answer http.HandlerFunc) (Client, string) {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	return Client{HTTP: server.Client(), Reach: time.Minute, Answer: time.Minute, Stall: time.Minute}, server.URL
}

func write200(writer http.ResponseWriter, text string) {
	_, _ = writer.Write([]byte(text))
}

func nothing(int64, int64) {}

func TestFileIsKeptIfItsDigestIsRight(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	client, address := serve(t, func(writer http.ResponseWriter, _ *http.Request) { write200(writer, content) })
	target := filepath.Join(t.TempDir(), "program")
	var come, size int64
	show := func(c, s int64) { come, size = c, s }

	g.Expect(client.File(t.Context(), address, digest, target, show)).To(Succeed())
	g.Expect(target).To(BeAnExistingFile())
	g.Expect(come).To(BeEquivalentTo(len(content)))
	g.Expect(size).To(BeEquivalentTo(len(content)))
}

func TestWhatIsWrongIsNotKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"corrupt": {func(writer http.ResponseWriter, _ *http.Request) { write200(writer, "another") }, "its SHA-256 is "},
		"truncated": {func(writer http.ResponseWriter, _ *http.Request) {
			writer.Header().Set("Content-Length", strconv.Itoa(len(content)))
			write200(writer, content[:5])
		}, "unexpected EOF"},
		"stalled": {func(writer http.ResponseWriter, request *http.Request) {
			write200(writer, content[:5])
			_ = http.NewResponseController(writer).Flush()
			<-request.Context().Done()
		}, "nothing came for 100ms"},
		"web page": {func(writer http.ResponseWriter, _ *http.Request) {
			write200(writer, "<html>Accept our terms.</html>")
		}, "a web page came instead, perhaps a login of the network"},
		"missing": {http.NotFound, "404 Not Found"},
		"redirected to plain HTTP": {func(writer http.ResponseWriter, request *http.Request) {
			http.Redirect(writer, request, "http://127.0.0.1:1/", http.StatusFound)
		}, "it is not HTTPS (redirected to http://127.0.0.1:1)"},
		"redirected for ever": {func(writer http.ResponseWriter, request *http.Request) {
			http.Redirect(writer, request, request.URL.Path+"x", http.StatusFound)
		}, "10 redirects (redirected to https://127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			client, address := serve(t, test.answer)
			if name == "stalled" {
				client.Stall = 100 * time.Millisecond
			}
			target := filepath.Join(t.TempDir(), "program")

			err := client.File(t.Context(), address+"/x", digest, target, nothing)
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			g.Expect(err).NotTo(MatchError(ErrUnreachable), "it has answered")
			g.Expect(target).NotTo(BeAnExistingFile())
		})
	}
}

func TestFaultThatMayPassIsRepeatedOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault http.HandlerFunc
		want  int32 // requests
	}{
		"busy":   {func(writer http.ResponseWriter, _ *http.Request) { writer.WriteHeader(http.StatusTooManyRequests) }, 2},
		"faulty": {func(writer http.ResponseWriter, _ *http.Request) { writer.WriteHeader(http.StatusBadGateway) }, 2},
		"truncated": {func(writer http.ResponseWriter, _ *http.Request) {
			writer.Header().Set("Content-Length", strconv.Itoa(len(content)))
			write200(writer, content[:5])
		}, 2},
		"corrupt": {func(writer http.ResponseWriter, _ *http.Request) { write200(writer, "another") }, 1},
		"missing": {http.NotFound, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var asked atomic.Int32
			client, address := serve(t, func(writer http.ResponseWriter, request *http.Request) {
				if asked.Add(1) == 1 {
					test.fault(writer, request)
					return
				}
				write200(writer, content)
			})
			err := client.File(t.Context(), address, digest, filepath.Join(t.TempDir(), "program"), nothing)
			g.Expect(err == nil).To(Equal(test.want == 2), "%v", err)
			g.Expect(asked.Load()).To(Equal(test.want))
		})
	}
}

func TestEndlessFileIsNotRead(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	client, address := serve(t, func(writer http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := writer.Write([]byte(content)); err != nil {
				return
			}
		}
	})
	client.Limit = 1 << 20
	target := filepath.Join(t.TempDir(), "program")
	var most int64
	err := client.File(t.Context(), address, digest, target, func(come, _ int64) { most = max(most, come) })
	g.Expect(err).To(MatchError(ContainSubstring("its SHA-256 is ")))
	g.Expect(most).To(BeNumerically("<=", client.Limit))
	g.Expect(target).NotTo(BeAnExistingFile())
}

func TestRedirectIsFollowed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	client, address := serve(t, func(writer http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/" {
			http.Redirect(writer, request, "/elsewhere", http.StatusFound)
			return
		}
		write200(writer, content)
	})
	g.Expect(client.Text(t.Context(), address)).To(Equal(content))
}

func TestServerThatDoesNotAnswerIsUnreachable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	client, address := serve(t, func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() })
	client.Answer = 100 * time.Millisecond

	_, err := client.Text(t.Context(), address)
	g.Expect(err).To(And(MatchError(ErrUnreachable), MatchError("not reachable (no answer within 100ms)")))
}

func TestServerThatIsNotThereIsUnreachable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	_, err := Client{}.Text(t.Context(), server.URL)
	g.Expect(err).To(And(MatchError(ErrUnreachable), MatchError(ContainSubstring("connection refused"))))
}

func TestServerWithAnUnknownCertificateIsUnreachable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, address := serve(t, func(writer http.ResponseWriter, _ *http.Request) { write200(writer, content) })
	_, err := Client{Reach: time.Minute}.Text(t.Context(), address)
	g.Expect(err).To(And(MatchError(ErrUnreachable), MatchError(ContainSubstring("certificate"))))
}

// slow is a server that thinks after it was connected to, and whose answer comes byte by byte.
type slow struct {
	think time.Duration
	pause time.Duration
	rest  string
}

func (s *slow) RoundTrip(request *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(request.Context()).GotConn(httptrace.GotConnInfo{})
	time.Sleep(s.think)
	return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(s), Request: request}, nil
}

func (s *slow) Read(buffer []byte) (int, error) {
	time.Sleep(s.pause)
	if s.rest == "" {
		return 0, io.EOF
	}
	n := copy(buffer[:1], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func TestSlowAnswerIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := Client{HTTP: &http.Client{Transport: &slow{think: answerTimeout - time.Second, rest: content}}}
		g.Expect(client.Text(t.Context(), "https://mirror.example")).To(Equal(content))
	})
}

func TestSlowDownloadIsNotStalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := Client{HTTP: &http.Client{Transport: &slow{pause: stallTimeout - time.Second, rest: content}}}
		g.Expect(client.Text(t.Context(), "https://mirror.example")).To(Equal(content))
	})
}

// A server may end its answer when the client gives up. That makes a piece no whole.
func TestStalledDownloadIsNotWholeEvenIfItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := Client{HTTP: &http.Client{Transport: &slow{pause: stallTimeout + time.Second, rest: content}}}
		_, err := client.Text(t.Context(), "https://mirror.example")
		g.Expect(err).To(MatchError("nothing came for 10s"))
	})
}

func TestDownloadEndsWithTheContext(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	client, address := serve(t, func(_ http.ResponseWriter, request *http.Request) {
		cancel()
		<-request.Context().Done()
	})
	_, err := client.Text(ctx, address)
	g.Expect(err).To(MatchError(context.Canceled))
}
