// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

const awkward = "pass\"word\\with <ümläuts>\tand all"

func unreachable(cause error) *failure.Error {
	return &failure.Error{Reason: failure.ReasonUnreachable, Message: "Look.", Err: cause}
}

func TestAPasswordIsCutOutHoweverItIsSpelled(t *testing.T) {
	t.Parallel()
	quoted := fmt.Sprintf("%q", awkward)
	inJSON, err := json.Marshal(awkward)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, text := range map[string]string{
		"as it is":              "you said " + awkward + "!",
		"in Go":                 "you said " + quoted + "!",
		"in Go, in Go":          fmt.Sprintf("it said %q!", quoted),
		"in ASCII":              fmt.Sprintf("you said %+q!", awkward),
		"in JSON":               "you said " + string(inJSON) + "!",
		"cut off at its end":    "you said " + awkward[:9],
		"twice":                 awkward + awkward + "!",
		"the one before":        "you said " + awkward + ", not second!",
		"in the text of others": "second, third, " + awkward + "!",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			register := NewRegister()
			passwords := register.Add()
			passwords.Add(awkward)
			passwords.Add("another")
			register.Add().Add("of another server")
			clean := passwords.Error(unreachable(errors.New(text))).Error()
			g.Expect(clean).To(ContainSubstring("[redacted]"))
			g.Expect(register.Text(text)).To(Equal(strings.TrimPrefix(clean, "Unreachable: ")))
			for _, part := range []string{awkward[:6], "word", "mläuts"} {
				g.Expect(clean).NotTo(ContainSubstring(part))
			}
			if strings.HasSuffix(text, "!") {
				g.Expect(clean).To(HaveSuffix("!"), "the rest of the text stays")
			}
		})
	}
}

// A name is told in lower case.
func TestAPasswordIsFoundInAName(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	passwords := NewRegister().Add()
	passwords.Add("S3cret-Password")
	g.Expect(passwords.In("redis.example:6379")).To(BeFalse())
	for _, text := range []string{"s3cret-password.example:6379", "x.S3CRET-.example", "s3cret"} {
		g.Expect(passwords.In(text)).To(BeTrue(), text)
	}
}

func TestWhatIsNoPasswordStays(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	register := NewRegister()
	passwords := register.Add()
	before := unreachable(errors.New("no route to host"))
	g.Expect(passwords.Error(before)).To(BeIdenticalTo(before), "no password was added")
	passwords.Add("")
	g.Expect(register).To(Equal(NewRegister()), "an empty password is not registered")
	passwords.Add("secret")
	g.Expect(passwords.Error(before)).To(BeIdenticalTo(before))
	g.Expect(passwords.Error(nil)).To(BeNil())
	g.Expect(register.Text("secre")).To(Equal("secre"), "five letters can occur by chance")
}

func TestOnlyTheLastPasswordsAreRemembered(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	register := NewRegister()
	passwords := register.Add()
	for _, each := range []string{"first", "second", "third", "fourth", "third", "fifth"} {
		passwords.Add(each)
	}
	g.Expect(register.Text("first second fifth")).To(Equal("first [redacted] [redacted]"))
}

func TestNothingIsKeptOfAServerThatIsForgotten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	register := NewRegister()
	passwords := register.Add()
	passwords.Add("first")
	passwords.Forget()
	passwords.Add("second") // Secrets may be loaded after Forget.
	g.Expect(register).To(Equal(NewRegister()))
	g.Expect(passwords.Error(unreachable(errors.New("first second"))).Error()).To(HaveSuffix("[redacted] [redacted]"))
}

// A tenant can name many endpoints, each with the longest password that is allowed.
func TestWhatIsKeptIsAFewTimesTheLength(t *testing.T) {
	t.Parallel()
	size := 0
	for _, spelled := range spellings(strings.Repeat("\x01<\"\\é", 4<<10/6)) {
		size += len(spelled)
	}
	NewWithT(t).Expect(size).To(BeNumerically("<", 256<<10))
}

// A password that occurs in every text, such as a single letter, must not change the class of an error.
func TestAnErrorKeepsItsMeaning(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{failure.ErrBusy, failure.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		g := NewWithT(t)
		passwords := NewRegister().Add()
		passwords.Add("e")
		before := failure.Classify(fmt.Errorf("calling: %w", cause))
		after := passwords.Error(before)
		g.Expect(after.Error()).NotTo(Equal(before.Error()))
		g.Expect(after).To(MatchError(cause))
		g.Expect(after.Reason).To(Equal(before.Reason))
		g.Expect(after.Message).To(Equal(before.Message))
		g.Expect(after.Busy()).To(Equal(before.Busy()))
	}
}

func TestAReplyStaysAReply(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	passwords := NewRegister().Add()
	passwords.Add("secret")
	after := passwords.Error(failure.Classify(reply("WRONGPASS secret is wrong")))
	g.Expect(after.Reason).To(Equal(failure.ReasonAuthFailed))
	g.Expect(failure.IsReply(after)).To(BeTrue())
	g.Expect(after.Error()).To(Equal("AuthFailed: WRONGPASS [redacted] is wrong"))
}
