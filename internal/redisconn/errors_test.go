// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn_test

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

	"miracle.dev/scaledjob-operator/internal/redisconn"
)

// reply is an error reply, as the client library would return it.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestClassify(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		reason redisconn.Reason
		words  string
	}{
		"no password":     {reply("NOAUTH Authentication required."), redisconn.ReasonAuthFailed, "demands a password"},
		"wrong password":  {reply("WRONGPASS invalid username-password pair or user is disabled."), redisconn.ReasonAuthFailed, "Check the user name"},
		"no permission":   {reply("NOPERM No permissions to access a key"), redisconn.ReasonPermissionDenied, "Grant it"},
		"wrong type":      {reply("WRONGTYPE Operation against a key"), redisconn.ReasonWrongType, "Name another key"},
		"loading":         {reply("LOADING Redis is loading the dataset in memory"), redisconn.ReasonUnreachable, "loading"},
		"busy":            {reply("BUSY Redis is busy running a script."), redisconn.ReasonUnreachable, "SCRIPT KILL"},
		"master down":     {reply("MASTERDOWN Link with MASTER is down"), redisconn.ReasonUnreachable, "replica"},
		"cluster":         {reply("MOVED 3999 10.0.0.1:6379"), redisconn.ReasonUnreachable, "Redis Cluster"},
		"too many":        {reply("ERR max number of clients reached"), redisconn.ReasonUnreachable, "maxclients"},
		"protected":       {reply("DENIED Redis is running in protected mode"), redisconn.ReasonUnreachable, "protected mode"},
		"unknown reply":   {reply("ERR what is this"), redisconn.ReasonUnreachable, "answered with an error"},
		"refused":         {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, redisconn.ReasonUnreachable, "refused"},
		"no route":        {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, redisconn.ReasonUnreachable, "no route"},
		"unknown name":    {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x"}}, redisconn.ReasonUnreachable, "resolved"},
		"slow DNS":        {&net.DNSError{Err: "timeout", IsTimeout: true}, redisconn.ReasonUnreachable, "resolved"},
		"deadline":        {context.DeadlineExceeded, redisconn.ReasonUnreachable, "in time"},
		"socket deadline": {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, redisconn.ReasonUnreachable, "in time"},
		"busy endpoint":   {redisconn.ErrBusy, redisconn.ReasonUnreachable, "too slowly"},
		"given up":        {context.Canceled, redisconn.ReasonUnreachable, "operator stopped"},
		"end":             {io.EOF, redisconn.ReasonUnreachable, "broke"},
		"reset":           {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, redisconn.ReasonUnreachable, "broke"},
		"garbage":         {errors.New("redis: can't parse \"HTTP/1.1\""), redisconn.ReasonUnreachable, "does not speak"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			classified := redisconn.Classify(fmt.Errorf("reading: %w", test.err))
			g.Expect(classified.Reason).To(Equal(test.reason))
			g.Expect(classified.Message).To(ContainSubstring(test.words))
			g.Expect(classified).To(MatchError(test.err))
			g.Expect(redisconn.Classify(fmt.Errorf("again: %w", classified))).To(BeIdenticalTo(classified))
		})
	}
}

func TestClassifyNil(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(redisconn.Classify(nil)).To(BeNil())
	g.Expect(redisconn.IsReply(nil)).To(BeFalse())
}

func TestBusy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var none *redisconn.Error
	g.Expect(none.Busy()).To(BeFalse())
	g.Expect(redisconn.Classify(reply("BUSY Redis is busy running a script.")).Busy()).To(BeFalse(), "which Redis says itself")
	g.Expect(redisconn.Classify(fmt.Errorf("calling: %w", redisconn.ErrBusy)).Busy()).To(BeTrue())
}

// FuzzClassify shows that a message tells the kind of a reply and nothing it says.
func FuzzClassify(f *testing.F) {
	for _, seed := range []string{"", "NOAUTH x", "ERR", "ERR max number of clients reached", "\x00", "WRONGTYPE"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const longestKind = 40
		kind := text[:min(len(text), longestKind)]
		NewWithT(t).Expect(redisconn.Classify(reply(text)).Message).To(Equal(redisconn.Classify(reply(kind)).Message))
	})
}
