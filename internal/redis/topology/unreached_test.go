// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"unique"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/dialguard"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const announcedAddress = "redis-2.example:6379"

// unreached returns a Directory for a deployment at a:1 and b:1.
func unreached(t *testing.T, mode auth.Mode) (d *Directory, e auth.Endpoint) {
	t.Helper()
	d = New(connection.NewPool(connection.Options{Log: logr.Discard()}), logr.Discard())
	e, err := auth.ParseDeployment(mode, []string{"a:1", "b:1"})
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	e.Sentinels = unique.Make(auth.Sentinels{MasterName: "main"})
	g.Expect(d.Claim("team", "emails", e, 0)).To(Succeed())
	return d, e
}

func refused() error { return failure.Classify(fmt.Errorf("dialing: %w", syscall.ECONNREFUSED)) }

func TestAnAnnouncedServerIsNamed(t *testing.T) {
	t.Parallel()
	for mode, c := range map[auth.Mode][]string{
		auth.ModeCluster:  {"The nodes of the Redis Cluster, asked at \"a:1\", announce a node at ", "cluster-announce-ip"},
		auth.ModeSentinel: {"The sentinels, asked at \"a:1\", announce the master at ", "replica-announce-ip", "sentinel resolve-hostnames"},
	} {
		for reason, err := range map[failure.Reason]error{
			failure.ReasonUnreachable: refused(),
			failure.ReasonDialDenied:  failure.Classify(&dialguard.DeniedError{Why: "192.0.2.1 is a denied address"}),
			failure.ReasonTLSFailed:   failure.Classify(&failure.HandshakeError{Err: errors.New("secret text")}),
			failure.ReasonAuthFailed:  failure.Classify(resp.Error("WRONGPASS secret text")),
		} {
			g := NewWithT(t)
			d, e := unreached(t, mode)
			is := failure.Classify(d.About(e, e.ServerAt(announcedAddress), err))
			g.Expect(is.Reason).To(Equal(reason))
			g.Expect(is).To(MatchError(err), "the cause stays")
			for _, part := range append(c, fmt.Sprintf("%q", announcedAddress), failure.Classify(err).Message, "network policies") {
				g.Expect(is.Message).To(ContainSubstring(part))
			}
			g.Expect(is.Message).NotTo(ContainSubstring("secret"))
		}
	}
}

func TestOtherErrorsDoNotNameAServer(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"busy":           failure.Classify(failure.ErrBusy),
		"no master":      failure.Classify(failure.ErrNotMaster),
		"closed":         failure.Classify(failure.ErrClosed),
		"too large":      failure.Classify(resp.ErrTooLarge),
		"no permission":  failure.Classify(resp.Error("NOPERM no")),
		"moved":          failure.Classify(resp.Error("MOVED 1 c:1")),
		"loading":        failure.Classify(resp.Error("LOADING")),
		"without Secret": &failure.Error{Reason: failure.ReasonSecretNotFound, Err: errors.New("no Secret")},
	} {
		d, e := unreached(t, auth.ModeCluster)
		g := NewWithT(t)
		g.Expect(d.About(e, e.ServerAt(announcedAddress), err)).To(BeIdenticalTo(err), name)
	}
	g := NewWithT(t)
	d, e := unreached(t, auth.ModeCluster)
	err := refused()
	g.Expect(d.About(e, e.ServerAt("b:1"), err)).To(BeIdenticalTo(err), "the user has written it")
	standalone := auth.Endpoint{Address: "c:1"}
	g.Expect(d.About(standalone, standalone, err)).To(BeIdenticalTo(err))
}

func TestAnAddressIsShownInBounds(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	d, e := unreached(t, auth.ModeCluster)
	is := failure.Classify(d.About(e, e.ServerAt(strings.Repeat("x", 253)+":1"), refused()))
	g.Expect(is.Message).To(And(ContainSubstring("x…\""), Not(ContainSubstring(strings.Repeat("x", longestShown+1)))))
}

// The message must not change while one of the addresses answers, whichever others do.
func TestTheAddressThatAnswersStays(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	d, e := unreached(t, auth.ModeCluster)
	f := d.watcher(e)
	from := func(addresses ...string) (said []response) {
		for _, each := range addresses {
			said = append(said, response{from: each})
		}
		return said
	}
	for _, c := range []struct {
		said []response
		want string
	}{
		{nil, "a:1"}, {from("b:1", "c:1"), "b:1"}, {from("a:1", "b:1"), "b:1"}, {from("c:1"), "b:1"}, {from("a:1", "c:1"), "a:1"},
	} {
		f.recordAnswering(c.said)
		g.Expect(f.polledAt()).To(Equal(c.want))
	}
}

// While no server answers, a server that the user has not written does not seem to be one that he has.
func TestAnAnnouncedServerIsNamedWhileNobodyAnswers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	d, e := unreached(t, auth.ModeCluster)
	f := d.watcher(e)
	cause := failure.Classify(context.DeadlineExceeded)
	g.Expect(f.about(e.ServerAt("a:1"), cause)).To(BeIdenticalTo(cause))
	g.Expect(failure.Classify(f.about(e.ServerAt(announcedAddress), cause)).Message).To(ContainSubstring(announcedAddress))
}
