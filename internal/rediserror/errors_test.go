// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package rediserror_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/dialguard"
	"miracle.dev/scaledjob-operator/internal/rediserror"
)

// reply is an error reply, as the client library would return it.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestClassify(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		reason rediserror.Reason
		words  string
	}{
		"no password":        {reply("NOAUTH Authentication required."), rediserror.ReasonAuthFailed, "demands a password"},
		"wrong password":     {reply("WRONGPASS invalid username-password pair or user is disabled."), rediserror.ReasonAuthFailed, "Check the user name"},
		"old wrong password": {reply("ERR invalid password"), rediserror.ReasonAuthFailed, "Check the user name"},
		"no password there": {
			reply("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"),
			rediserror.ReasonAuthFailed, "has no password",
		},
		"old no password there": {reply("ERR Client sent AUTH, but no password is set"), rediserror.ReasonAuthFailed, "has no password"},
		"no users there":        {reply("ERR wrong number of arguments for 'auth' command"), rediserror.ReasonAuthFailed, "no user names"},
		"other wrong number":    {reply("ERR wrong number of arguments for 'llen' command"), rediserror.ReasonUnreachable, "answered with an error"},
		"no such database":      {reply("ERR DB index is out of range"), rediserror.ReasonDatabaseNotFound, "spec.redis.database"},
		"odd database":          {reply("ERR invalid DB index"), rediserror.ReasonDatabaseNotFound, "spec.redis.database"},
		"database of a cluster": {reply("ERR SELECT is not allowed in cluster mode"), rediserror.ReasonDatabaseNotFound, "only database 0"},
		"no permission":         {reply("NOPERM it is Sunday"), rediserror.ReasonPermissionDenied, "Grant it LLEN for a list"},
		"wrong type":            {reply("WRONGTYPE Operation against a key"), rediserror.ReasonWrongType, "Name another key"},
		"loading":               {reply("LOADING Redis is loading the dataset in memory"), rediserror.ReasonUnreachable, "loading"},
		"busy":                  {reply("BUSY Redis is busy running a script."), rediserror.ReasonUnreachable, "SCRIPT KILL"},
		"master down":           {reply("MASTERDOWN Link with MASTER is down"), rediserror.ReasonUnreachable, "replica"},
		"cluster":               {reply("MOVED 3999 10.0.0.1:6379"), rediserror.ReasonUnreachable, "Redis Cluster"},
		"too many":              {reply("ERR max number of clients reached"), rediserror.ReasonUnreachable, "maxclients"},
		"protected":             {reply("DENIED Redis is running in protected mode"), rediserror.ReasonUnreachable, "protected mode"},
		"unknown reply":         {reply("ERR what is this"), rediserror.ReasonUnreachable, "answered with an error"},
		"refused":               {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, rediserror.ReasonUnreachable, "refused"},
		"no route":              {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, rediserror.ReasonUnreachable, "no route"},
		"unknown name":          {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x"}}, rediserror.ReasonUnreachable, "resolved"},
		"slow DNS":              {&net.DNSError{Err: "timeout", IsTimeout: true}, rediserror.ReasonUnreachable, "resolved"},
		"deadline":              {context.DeadlineExceeded, rediserror.ReasonUnreachable, "in time"},
		"socket deadline":       {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, rediserror.ReasonUnreachable, "in time"},
		"denied": {
			&net.OpError{Op: "dial", Err: &dialguard.DeniedError{Why: "169.254.169.254 is link-local"}}, rediserror.ReasonDialDenied, "--redis-allow-cidrs",
		},
		"busy and denied": {
			fmt.Errorf("%w: %w", rediserror.ErrBusy, &dialguard.DeniedError{Why: "loopback"}), rediserror.ReasonUnreachable, "too slowly",
		},
		"busy endpoint": {rediserror.ErrBusy, rediserror.ReasonUnreachable, "too slowly"},
		"given up":      {context.Canceled, rediserror.ReasonUnreachable, "operator stopped"},
		"end":           {io.EOF, rediserror.ReasonUnreachable, "spec.redis.tls"},
		"reset":         {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, rediserror.ReasonUnreachable, "broke"},
		"garbage":       {errors.New("redis: can't parse \"HTTP/1.1\""), rediserror.ReasonUnreachable, "does not speak"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			classified := rediserror.Classify(fmt.Errorf("reading: %w", test.err))
			g.Expect(classified.Reason).To(Equal(test.reason))
			g.Expect(classified.Message).To(ContainSubstring(test.words))
			g.Expect(classified).To(MatchError(test.err))
			g.Expect(rediserror.Classify(fmt.Errorf("again: %w", classified))).To(BeIdenticalTo(classified))
		})
	}
}

func TestClassifyNil(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(rediserror.Classify(nil)).To(BeNil())
	g.Expect(rediserror.IsReply(nil)).To(BeFalse())
}

// A server chooses how much it says, and how often it is asked again.
func TestOfALongCauseALogHasTheBeginning(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	short := rediserror.Classify(errors.New("ümläut"))
	g.Expect(short.Cause()).To(Equal("ümläut"))
	g.Expect(short.Error()).To(Equal("Unreachable: ümläut"))

	long := rediserror.Classify(reply("WRONGTYPE " + strings.Repeat("ü", 1<<20)))
	for _, text := range []string{long.Cause(), long.Error(), fmt.Errorf("reading: %w", long).Error()} {
		g.Expect(text).To(ContainSubstring("WRONGTYPE üü"))
		g.Expect(len(text)).To(BeNumerically("<", 1100))
		g.Expect(utf8.ValidString(text)).To(BeTrue())
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var none *rediserror.Error
	g.Expect(none.Busy()).To(BeFalse())
	g.Expect(rediserror.Classify(reply("BUSY Redis is busy running a script.")).Busy()).To(BeFalse(), "which Redis says itself")
	g.Expect(rediserror.Classify(fmt.Errorf("calling: %w", rediserror.ErrBusy)).Busy()).To(BeTrue())
}
