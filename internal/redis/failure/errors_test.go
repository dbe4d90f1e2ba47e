// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package failure_test

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

	"miracle.dev/scaledjob-operator/internal/redis/dialguard"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// reply is an error reply, as the client library returns it.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestClassify(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		reason failure.Reason
		words  string
	}{
		"no password":        {reply("NOAUTH Authentication required."), failure.ReasonAuthFailed, "requires a password"},
		"wrong password":     {reply("WRONGPASS invalid username-password pair or user is disabled."), failure.ReasonAuthFailed, "Without a username, the user is default"},
		"old wrong password": {reply("ERR invalid password"), failure.ReasonAuthFailed, "Check the user name"},
		"no password there": {
			reply("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"),
			failure.ReasonAuthFailed, "has no password",
		},
		"old no password there": {reply("ERR Client sent AUTH, but no password is set"), failure.ReasonAuthFailed, "has no password"},
		"no users there":        {reply("ERR wrong number of arguments for 'auth' command"), failure.ReasonAuthFailed, "no user names"},
		"other wrong number":    {reply("ERR wrong number of arguments for 'llen' command"), failure.ReasonUnreachable, "answered with an error"},
		"no such database":      {reply("ERR DB index is out of range"), failure.ReasonDatabaseNotFound, "spec.redis.database"},
		"odd database":          {reply("ERR invalid DB index"), failure.ReasonDatabaseNotFound, "spec.redis.database"},
		"database of a cluster": {reply("ERR SELECT is not allowed in cluster mode"), failure.ReasonDatabaseNotFound, "only database 0"},
		"no permission":         {reply("NOPERM it is Sunday"), failure.ReasonPermissionDenied, "Grant it LLEN for a list"},
		"wrong type":            {reply("WRONGTYPE Operation against a key"), failure.ReasonWrongType, "name another key"},
		"loading":               {reply("LOADING Redis is loading the dataset in memory"), failure.ReasonUnreachable, "loading"},
		"busy":                  {reply("BUSY Redis is busy running a script."), failure.ReasonUnreachable, "SCRIPT KILL"},
		"master down":           {reply("MASTERDOWN Link with MASTER is down"), failure.ReasonUnreachable, "replica"},
		"cluster":               {reply("MOVED 3999 10.0.0.1:6379"), failure.ReasonWrongMode, "mode: Cluster"},
		"slot on the move":      {reply("ASK 3999 10.0.0.1:6379"), failure.ReasonWrongMode, "mode: Cluster"},
		"cluster down":          {reply("CLUSTERDOWN The cluster is down"), failure.ReasonUnreachable, "Repair the cluster"},
		"too many":              {reply("ERR max number of clients reached"), failure.ReasonUnreachable, "maxclients"},
		"protected":             {reply("DENIED Redis is running in protected mode"), failure.ReasonUnreachable, "protected mode"},
		"unknown reply":         {reply("ERR what is this"), failure.ReasonUnreachable, "answered with an error"},
		"refused":               {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, failure.ReasonUnreachable, "refused"},
		"no route":              {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, failure.ReasonUnreachable, "no route"},
		"unknown name":          {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x"}}, failure.ReasonUnreachable, "resolved"},
		"slow DNS":              {&net.DNSError{Err: "timeout", IsTimeout: true}, failure.ReasonUnreachable, "resolved"},
		"deadline":              {context.DeadlineExceeded, failure.ReasonUnreachable, "in time"},
		"socket deadline":       {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, failure.ReasonUnreachable, "in time"},
		"denied": {
			&net.OpError{Op: "dial", Err: &dialguard.DeniedError{Why: "169.254.169.254 is link-local"}}, failure.ReasonDialDenied, "--redis-allow-cidrs",
		},
		"busy and denied": {
			fmt.Errorf("%w: %w", failure.ErrBusy, &dialguard.DeniedError{Why: "loopback"}), failure.ReasonUnreachable, "too slowly",
		},
		"busy endpoint": {failure.ErrBusy, failure.ReasonUnreachable, "too slowly"},
		"given up":      {context.Canceled, failure.ReasonUnreachable, "operator stopped"},
		"end":           {io.EOF, failure.ReasonUnreachable, "spec.redis.tls"},
		"reset":         {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, failure.ReasonUnreachable, "broke"},
		"garbage":       {errors.New("redis: can't parse \"HTTP/1.1\""), failure.ReasonUnreachable, "does not speak"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			classified := failure.Classify(fmt.Errorf("reading: %w", test.err))
			g.Expect(classified.Reason).To(Equal(test.reason))
			g.Expect(classified.Message).To(ContainSubstring(test.words))
			g.Expect(classified).To(MatchError(test.err))
			g.Expect(failure.Classify(fmt.Errorf("again: %w", classified))).To(BeIdenticalTo(classified))
		})
	}
}

// Redis 6.2 says some things in other words than newer versions.
func TestErrorsOfRedis62(t *testing.T) {
	t.Parallel()
	said := redistest.Redis62()
	for command, c := range map[string]struct {
		reason failure.Reason
		words  string
	}{
		"resp3 llen text":                     {failure.ReasonWrongType, "name another key"},
		"resp3 select 99":                     {failure.ReasonDatabaseNotFound, "spec.redis.database"},
		"limited llen emails":                 {failure.ReasonPermissionDenied, "may not read a key"},
		"limited scard set":                   {failure.ReasonPermissionDenied, "Grant it +scard "},
		"limited select 1":                    {failure.ReasonPermissionDenied, "Grant it +select "},
		"limited ping":                        {failure.ReasonPermissionDenied, "Grant it +ping "},
		"limited subscribe other":             {failure.ReasonPermissionDenied, "may not subscribe to the channel"},
		"stranger hello 3":                    {failure.ReasonAuthFailed, "requires a password"},
		"stranger llen emails":                {failure.ReasonAuthFailed, "requires a password"},
		"stranger hello 3 auth default wrong": {failure.ReasonAuthFailed, "rejected the credentials"},
		"stranger auth wrong":                 {failure.ReasonAuthFailed, "rejected the credentials"},
	} {
		text, isError := strings.CutPrefix(said[command], "-")
		g := NewWithT(t)
		g.Expect(isError).To(BeTrue(), command)
		classified := failure.Classify(reply(strings.TrimSpace(text)))
		g.Expect(classified.Reason).To(Equal(c.reason), command)
		g.Expect(classified.Message).To(ContainSubstring(c.words), command)
	}
	for _, command := range []string{"resp3 helo 3", "resp3 client tracing on", "limited client tracking on", "limited config get notify-keyspace-events"} {
		text, _ := strings.CutPrefix(said[command], "-")
		NewWithT(t).Expect(failure.IsRefusal(reply(text))).To(BeTrue(), command)
	}
}

func TestClassifyNil(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(failure.Classify(nil)).To(BeNil())
	g.Expect(failure.IsReply(nil)).To(BeFalse())
}

// The server decides how long its errors are and, by failing again, how often they are logged.
func TestOfALongCauseALogHasTheBeginning(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	short := failure.Classify(errors.New("ümläut"))
	g.Expect(short.Cause()).To(Equal("ümläut"))
	g.Expect(short.Error()).To(Equal("Unreachable: ümläut"))

	long := failure.Classify(reply("WRONGTYPE " + strings.Repeat("ü", 1<<20)))
	for _, text := range []string{long.Cause(), long.Error(), fmt.Errorf("reading: %w", long).Error()} {
		g.Expect(text).To(ContainSubstring("WRONGTYPE üü"))
		g.Expect(len(text)).To(BeNumerically("<", 1100))
		g.Expect(utf8.ValidString(text)).To(BeTrue())
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var none *failure.Error
	g.Expect(none.Busy()).To(BeFalse())
	g.Expect(failure.Classify(reply("BUSY Redis is busy running a script.")).Busy()).To(BeFalse(), "BUSY is a reply of Redis")
	g.Expect(failure.Classify(fmt.Errorf("calling: %w", failure.ErrBusy)).Busy()).To(BeTrue())
}
