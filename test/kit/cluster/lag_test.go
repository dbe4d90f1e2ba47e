// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

func TestLagDelaysWhatArrives(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		lag, source, lines := lagging(t)
		lag.Set(100 * time.Millisecond)
		sent := time.Now()
		send(t, source, "one")
		time.Sleep(30 * time.Millisecond)
		send(t, source, "two")

		g.Expect(lines.Scan()).To(BeTrue())
		g.Expect(lines.Text()).To(Equal("one"))
		g.Expect(time.Since(sent)).To(Equal(100 * time.Millisecond))
		g.Expect(lines.Scan()).To(BeTrue())
		g.Expect(lines.Text()).To(Equal("two"))
		g.Expect(time.Since(sent)).To(Equal(130 * time.Millisecond))
	})
}

func TestNoLagPassesThrough(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		_, source, lines := lagging(t)
		sent := time.Now()
		send(t, source, "one")
		g.Expect(lines.Scan()).To(BeTrue())
		g.Expect(lines.Text()).To(Equal("one"))
		g.Expect(time.Since(sent)).To(BeZero())
	})
}

func TestSetActsOnWhatIsWaiting(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		lag, source, lines := lagging(t)
		lag.Set(time.Hour)
		sent := time.Now()
		send(t, source, "one")
		go func() {
			time.Sleep(time.Second)
			lag.Set(time.Minute)
			time.Sleep(time.Second)
			lag.Set(0)
		}()
		g.Expect(lines.Scan()).To(BeTrue())
		g.Expect(time.Since(sent)).To(Equal(2 * time.Second))
	})
}

func TestLagKeepsTheOrder(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		lag, source, lines := lagging(t)
		const count = 1000
		go func() {
			for i := range count {
				lag.Set(time.Duration(rand.IntN(50)) * time.Millisecond)
				_, _ = fmt.Fprintln(source, i)
				time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
			}
			_ = source.Close()
		}()
		for i := range count {
			g.Expect(lines.Scan()).To(BeTrue())
			g.Expect(lines.Text()).To(Equal(fmt.Sprint(i)))
		}
		g.Expect(lines.Scan()).To(BeFalse())
		g.Expect(lines.Err()).NotTo(HaveOccurred())
	})
}

func TestTheSourceIsNeverHeldUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lag, source, _ := lagging(t)
		lag.Set(time.Hour)
		for range 1000 {
			send(t, source, strings.Repeat("x", 10_000)) // blocks unless it is read
		}
	})
}

func TestEndOfTheSourceIsDelayedAndRepeated(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		lag := NewLag()
		reader, source := io.Pipe()
		body := newLaggingBody(lag, reader)
		lag.Set(time.Second)
		ended := time.Now()
		g.Expect(source.CloseWithError(io.ErrUnexpectedEOF)).To(Succeed())
		for range 2 {
			_, err := body.Read(make([]byte, 1))
			g.Expect(err).To(MatchError(io.ErrUnexpectedEOF))
			g.Expect(time.Since(ended)).To(Equal(time.Second))
		}
	})
}

func TestCloseEndsReading(t *testing.T) {
	bubble.Run(t, func(_ *testing.T, g Gomega) {
		reader, source := io.Pipe()
		body := newLaggingBody(NewLag(), reader)
		go func() {
			time.Sleep(time.Second)
			_ = body.Close()
		}()
		_, err := body.Read(make([]byte, 1))
		g.Expect(err).To(MatchError(http.ErrBodyReadAfterClose))
		_, err = io.WriteString(source, "x")
		g.Expect(err).To(MatchError(io.ErrClosedPipe), "the body itself is closed")
		g.Expect(body.Close()).To(Succeed())
	})
}

func TestWrapDelaysTheChosenWatchesAlone(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]bool{
		"/apis/batch/v1/jobs?watch=true":                              true,
		"/apis/batch/v1/namespaces/default/jobs?watch=true":           true,
		"/apis/batch/v1/namespaces/default/jobs?watch=1&allow=x":      true,
		"/apis/batch/v1/namespaces/default/jobs":                      false,
		"/apis/batch/v1/namespaces/default/jobs?watch=false":          false,
		"/apis/batch/v1/namespaces/default/jobs?watch=maybe":          false,
		"/apis/batch/v1/namespaces/jobs/cronjobs?watch=true":          false,
		"/apis/batch/v1/cronjobs?watch=true":                          false,
		"/api/v1/namespaces/default/pods?watch=true":                  true,
		"/api/v1/namespaces?watch=true":                               false,
		"/api/v1/namespaces?watch=true&fieldSelector=metadata.name=x": false,
		"/api/v1/pods?watch=true":                                     true,
		"/api/v1?watch=true":                                          false,
		"/?watch=true":                                                false,
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			transport := NewLag("jobs", "pods").Wrap(answering{})
			response, err := transport.RoundTrip(httptest.NewRequest(http.MethodGet, target, nil))
			g.Expect(err).NotTo(HaveOccurred())
			_, delayed := response.Body.(*laggingBody)
			g.Expect(delayed).To(Equal(want))
			g.Expect(response.Body.Close()).To(Succeed())
		})
	}
}

func TestWrapPassesErrorsOn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	request := httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=true", nil)
	response, err := NewLag("pods").Wrap(answering{err: io.EOF}).RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	g.Expect(err).To(MatchError(io.EOF))
}

// answering is a transport that gives an empty answer, or an error.
type answering struct{ err error }

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// lagging returns a Lag, the end to write to and the lines that come out of
// it. The body is closed after the test.
func lagging(t *testing.T) (*Lag, *io.PipeWriter, *bufio.Scanner) {
	t.Helper()
	lag := NewLag()
	reader, source := io.Pipe()
	body := newLaggingBody(lag, reader)
	t.Cleanup(func() { _ = body.Close() })
	return lag, source, bufio.NewScanner(body)
}

func send(t *testing.T, source io.Writer, line string) {
	t.Helper()
	_, err := io.WriteString(source, line+"\n")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

func TestEndLosesWhatWaits(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		lag, source, lines := lagging(t)
		send(t, source, "one")
		g.Expect(lines.Scan()).To(BeTrue())
		lag.Set(time.Hour)
		send(t, source, "two")
		lag.End()
		g.Expect(lines.Scan()).To(BeFalse())
		g.Expect(lines.Err()).NotTo(HaveOccurred())
	})
}
