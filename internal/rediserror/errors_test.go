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
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

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
		"no password":     {reply("NOAUTH Authentication required."), rediserror.ReasonAuthFailed, "demands a password"},
		"wrong password":  {reply("WRONGPASS invalid username-password pair or user is disabled."), rediserror.ReasonAuthFailed, "Check the user name"},
		"no permission":   {reply("NOPERM No permissions to access a key"), rediserror.ReasonPermissionDenied, "Grant it"},
		"wrong type":      {reply("WRONGTYPE Operation against a key"), rediserror.ReasonWrongType, "Name another key"},
		"loading":         {reply("LOADING Redis is loading the dataset in memory"), rediserror.ReasonUnreachable, "loading"},
		"busy":            {reply("BUSY Redis is busy running a script."), rediserror.ReasonUnreachable, "SCRIPT KILL"},
		"master down":     {reply("MASTERDOWN Link with MASTER is down"), rediserror.ReasonUnreachable, "replica"},
		"cluster":         {reply("MOVED 3999 10.0.0.1:6379"), rediserror.ReasonUnreachable, "Redis Cluster"},
		"too many":        {reply("ERR max number of clients reached"), rediserror.ReasonUnreachable, "maxclients"},
		"protected":       {reply("DENIED Redis is running in protected mode"), rediserror.ReasonUnreachable, "protected mode"},
		"unknown reply":   {reply("ERR what is this"), rediserror.ReasonUnreachable, "answered with an error"},
		"refused":         {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, rediserror.ReasonUnreachable, "refused"},
		"no route":        {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, rediserror.ReasonUnreachable, "no route"},
		"unknown name":    {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x"}}, rediserror.ReasonUnreachable, "resolved"},
		"slow DNS":        {&net.DNSError{Err: "timeout", IsTimeout: true}, rediserror.ReasonUnreachable, "resolved"},
		"deadline":        {context.DeadlineExceeded, rediserror.ReasonUnreachable, "in time"},
		"socket deadline": {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, rediserror.ReasonUnreachable, "in time"},
		"busy endpoint":   {rediserror.ErrBusy, rediserror.ReasonUnreachable, "too slowly"},
		"given up":        {context.Canceled, rediserror.ReasonUnreachable, "operator stopped"},
		"end":             {io.EOF, rediserror.ReasonUnreachable, "broke"},
		"reset":           {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, rediserror.ReasonUnreachable, "broke"},
		"garbage":         {errors.New("redis: can't parse \"HTTP/1.1\""), rediserror.ReasonUnreachable, "does not speak"},
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

func TestBusy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var none *rediserror.Error
	g.Expect(none.Busy()).To(BeFalse())
	g.Expect(rediserror.Classify(reply("BUSY Redis is busy running a script.")).Busy()).To(BeFalse(), "which Redis says itself")
	g.Expect(rediserror.Classify(fmt.Errorf("calling: %w", rediserror.ErrBusy)).Busy()).To(BeTrue())
}

// FuzzClassify shows that a message tells the kind of a reply and nothing it says.
func FuzzClassify(f *testing.F) {
	for _, seed := range []string{"", "NOAUTH x", "ERR", "ERR max number of clients reached", "\x00", "WRONGTYPE"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const longestKind = 40
		kind := text[:min(len(text), longestKind)]
		NewWithT(t).Expect(rediserror.Classify(reply(text)).Message).To(Equal(rediserror.Classify(reply(kind)).Message))
	})
}
