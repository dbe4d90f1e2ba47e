// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

const awkward = "pass\"word\\with <ümläuts>\tand all"

// with returns the passwords of a server.
func with(all ...string) *Passwords {
	passwords := &Passwords{}
	for _, each := range all {
		passwords.Add(each)
	}
	return passwords
}

// reply returns the error of a call that a server answered with this.
func reply(said string) *failure.Error {
	return failure.Classify(fmt.Errorf("reading: %w", resp.Error(said)))
}

func TestAPasswordInAReplyIsReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ said, shown string }{
		"as it is":           {"WRONGPASS " + awkward + "!", "WRONGPASS [redacted]!"},
		"quoted":             {fmt.Sprintf("WRONGPASS %q!", awkward), `WRONGPASS "[redacted]"!`},
		"twice":              {"WRONGPASS " + awkward + awkward, "WRONGPASS [redacted][redacted]"},
		"a former one":       {"WRONGPASS first " + awkward, "WRONGPASS [redacted] [redacted]"},
		"as a whole":         {awkward, "[redacted]"},
		"one within another": {"WRONGPASS second first!", "WRONGPASS [redacted]!"},
		"as Redis repeats arguments": {
			"ERR unknown command 'hello', with args beginning with: '3' 'auth' 'default' 'pass\"wo' ",
			"ERR unknown command 'hello', with args beginning with …",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			passwords := with("first", "second first", awkward)
			before := reply(c.said)
			after := passwords.Error(before)
			g.Expect(after.Err).To(MatchError(c.shown))
			g.Expect(after.Reason).To(Equal(before.Reason))
			g.Expect(after.Message).To(Equal(before.Message))
			g.Expect(failure.IsReply(after)).To(BeTrue())
			g.Expect(passwords.Error(after)).To(BeIdenticalTo(after), "once is enough")
		})
	}
}

// numberError returns the error for a text that is no number, as the client library returns it.
func numberError(text string) error {
	_, err := strconv.ParseInt(text, 10, 64)
	return err
}

// What a server says is cut off. No part of a password is left before the end.
func TestAPasswordAtTheEndOfWhatIsShownIsReplaced(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const password = "open sesame"
	for _, form := range []string{password, fmt.Sprintf("%q", password)} {
		for shift := range 2 * len(form) {
			said := strings.Repeat("ü", (failure.MaxLogged-2*len(form)+shift)/2) + form + strings.Repeat("x", 2<<10)
			shown := with(password).Error(reply(said)).Err.Error()
			g.Expect(shown).To(Or(ContainSubstring(redacted), MatchRegexp(`^ü+"?…$`)), "%d", shift)
			g.Expect(shown).NotTo(ContainSubstring(password[:2]), "%d", shift)
			g.Expect(shown).To(HaveSuffix("…"))
			g.Expect(utf8.ValidString(shown)).To(BeTrue())
			g.Expect(len(shown)).To(BeNumerically("<", failure.MaxLogged+len(redacted)+len("…")))
		}
	}
}

func TestALongReplyIsShownInPart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, passwords := range []*Passwords{with(), with("x"), with("secret")} {
		after := passwords.Error(reply("NOPERM " + strings.Repeat("x", 1<<20)))
		g.Expect(len(after.Err.Error())).To(BeNumerically("<", 16<<10))
		g.Expect(failure.IsRefusal(after)).To(BeTrue())
	}
}

func TestWhatAServerSaysElsewhereIsReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		shown string
	}{
		"certificate": {
			&failure.HandshakeError{Err: &tls.CertificateVerificationError{Err: errors.New("it is for open sesame")}},
			"TLS handshake: tls: failed to verify certificate: it is for [redacted]",
		},
		"what the client library quotes": {errors.New(`redis: can't parse "+open ses"`), "redis: can't parse …"},
		"a number that is none":          {fmt.Errorf("reading: %w", numberError("open ses")), "reading: strconv.ParseInt: parsing …"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			before := failure.Classify(c.err)
			after := with("open sesame").Error(before)
			g.Expect(after.Err).To(MatchError(c.shown))
			g.Expect(after.Reason).To(Equal(before.Reason))
			g.Expect(after.Message).To(Equal(before.Message))
		})
	}
}

// Our own words may be those of a password. They are no secret, and what they mean must not change.
func TestOurOwnErrorsStay(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{
		failure.ErrBusy, failure.ErrClosed, failure.ErrNotMaster, resp.ErrTooLarge, resp.ErrMalformed, context.Canceled,
		context.DeadlineExceeded, io.EOF, &failure.HandshakeError{Err: context.DeadlineExceeded},
	} {
		g := NewWithT(t)
		text := cause.Error()
		before := failure.Classify(fmt.Errorf("calling: %w", cause))
		after := with(text, text[:3], "master-pw", "server").Error(before)
		g.Expect(after).To(BeIdenticalTo(before))
	}
}

// A reply means what it means, also if its words are those of a password.
func TestARedactedReplyKeepsItsMeaning(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	moved := with("MOVED").Error(reply("MOVED 1 redis:1"))
	g.Expect(moved.Err).To(MatchError("[redacted] 1 redis:1"))
	g.Expect(failure.IsRedirection(moved)).To(BeTrue())
	unknown := with("unknown").Error(reply("ERR unknown command"))
	g.Expect(unknown.Err).To(MatchError("ERR [redacted] command"))
	g.Expect(failure.IsUnsupported(fmt.Errorf("reading: %w", unknown))).To(BeTrue())
}

func TestWhatIsNoPasswordStays(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	before := reply("WRONGPASS secre")
	g.Expect(with().Error(before)).To(BeIdenticalTo(before), "no password was added")
	g.Expect(with("").Error(before)).To(BeIdenticalTo(before), "an empty password is none")
	g.Expect(with("secret").Error(before)).To(BeIdenticalTo(before))
	g.Expect(with("secret").Error(nil)).To(BeNil())
}

func TestOnlyTheLastPasswordsAreRemembered(t *testing.T) {
	t.Parallel()
	passwords := with("first", "second", "third", "fourth", "third", "fifth")
	NewWithT(t).Expect(passwords.Error(reply("first second fifth")).Err).To(MatchError("first [redacted] [redacted]"))
}

// Names are written in lower case.
func TestAPasswordIsFoundInAName(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	passwords := with("S3cret-Password")
	g.Expect(passwords.In("s3cret.example:6379")).To(BeFalse())
	for _, text := range []string{"s3cret-password.example:6379", "x.S3CRET-PASSWORD.example"} {
		g.Expect(passwords.In(text)).To(BeTrue(), text)
	}
}
