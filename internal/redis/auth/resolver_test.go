// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
)

// readFunc implements [auth.Secrets].
type readFunc func(ctx context.Context, namespace, name string) (map[string][]byte, error)

func (f readFunc) Read(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	return f(ctx, namespace, name)
}

// holds returns a Secrets in which every Secret has only this password.
func holds(password string) readFunc {
	return func(context.Context, string, string) (map[string][]byte, error) {
		return map[string][]byte{"password": []byte(password)}, nil
	}
}

func fails(err error) readFunc {
	return func(context.Context, string, string) (map[string][]byte, error) { return nil, err }
}

var secured = auth.Endpoint{
	Address: "redis:6379", Namespace: "team", Password: auth.SecretKey{Name: "redis", Key: "password"},
}

func TestOneLineEndBelongsToTheFile(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, lineEnd := range []string{"", "\n", "\r\n"} {
		credentials, cause := auth.NewResolver(holds(" a secret "+lineEnd), false).Load(t.Context(), secured)
		g.Expect(cause).To(BeNil())
		g.Expect(credentials.Password()).To(Equal(" a secret "), "without the line end %q", lineEnd)
	}
}

// A user can change what a Secret contains and which Secret an endpoint names. A missing permission, or an API server
// that does not answer, is not the decision of a user.
func TestWhatIsWithdrawn(t *testing.T) {
	t.Parallel()
	unverified := secured
	unverified.TLS = auth.TLS{Enabled: true, SkipVerify: true}
	absent := &failure.Error{Reason: failure.ReasonSecretNotFound, Err: errors.New("none")}
	forbidden := &failure.Error{Reason: failure.ReasonSecretForbidden, Err: errors.New("no")}
	otherKey := secured
	otherKey.Password.Key = "other"
	for name, test := range map[string]struct {
		endpoint auth.Endpoint
		secrets  auth.Secrets
		reason   failure.Reason
		revoked  bool
	}{
		"no such Secret":       {secured, fails(absent), failure.ReasonSecretNotFound, true},
		"no such key":          {otherKey, holds("secret"), failure.ReasonSecretNotFound, true},
		"nothing to read with": {secured, nil, failure.ReasonSecretNotFound, true},
		"an empty password":    {secured, holds("\n"), failure.ReasonSecretInvalid, true},
		"an unknown server":    {unverified, holds("secret"), failure.ReasonTLSFailed, true},
		"no right to read it":  {secured, fails(forbidden), failure.ReasonSecretForbidden, false},
		"no answer":            {secured, fails(errors.New("timeout")), failure.ReasonUnreachable, false},
		"several lines":        {secured, holds("secret\n\n"), failure.ReasonSecretInvalid, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			credentials, cause := auth.NewResolver(test.secrets, false).Load(t.Context(), test.endpoint)
			g.Expect(credentials).To(BeNil())
			g.Expect(cause.Reason).To(Equal(test.reason))
			g.Expect(auth.Revoked(cause)).To(Equal(test.revoked))
		})
	}
}

// The operator keeps several spellings of a password for each endpoint. A user can name many endpoints, and must not be
// able to exhaust the operator's memory.
func TestAPasswordTakesLittleMemoryHoweverLongItIs(t *testing.T) {
	t.Parallel()
	for length, refused := range map[int]types.GomegaMatcher{
		4 << 10:     BeNil(), // Some tokens of cloud providers are this long.
		4<<10 + 1:   HaveField("Reason", failure.ReasonSecretInvalid),
		256<<10 + 1: HaveField("Reason", failure.ReasonSecretInvalid),
	} {
		_, cause := auth.NewResolver(holds(strings.Repeat("x", length)), false).Load(t.Context(), secured)
		NewWithT(t).Expect(cause).To(refused)
	}
}

func TestCredentialsAreComparedByTheirValues(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	load := func(password string) *auth.Credentials {
		credentials, cause := auth.NewResolver(holds(password), false).Load(t.Context(), secured)
		g.Expect(cause).To(BeNil())
		return credentials
	}
	g.Expect(load("first").Same(load("first"))).To(BeTrue())
	g.Expect(load("first").Same(load("second"))).To(BeFalse())
	g.Expect(load("first").Same(nil)).To(BeFalse())
	var none *auth.Credentials
	g.Expect(none.Same(load("first"))).To(BeFalse())
	g.Expect(none.Same(nil)).To(BeTrue())
}

func TestFewSecretsAreReadAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		reading, answer := make(chan struct{}, 100), make(chan struct{})
		resolver := auth.NewResolver(readFunc(func(context.Context, string, string) (map[string][]byte, error) {
			reading <- struct{}{}
			<-answer
			return map[string][]byte{"password": []byte("secret")}, nil
		}), false)
		ctx, giveUp := context.WithCancel(t.Context())
		refused := make(chan *failure.Error, 100)
		for range 20 {
			go func() {
				_, cause := resolver.Load(ctx, secured)
				refused <- cause
			}()
		}
		synctest.Wait()
		g.Expect(reading).To(HaveLen(16))
		giveUp()
		synctest.Wait()
		g.Expect(refused).To(HaveLen(4))
		g.Expect((<-refused).Busy()).To(BeTrue(), "the endpoint itself did not fail")
		close(answer)
	})
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	credentials, cause := auth.NewResolver(holds("a-secret"), false).Load(t.Context(), secured)
	g.Expect(cause).To(BeNil())
	for _, printed := range []string{
		fmt.Sprint(credentials), fmt.Sprintf("%+v", *credentials), fmt.Sprintf("%#v", credentials), fmt.Sprintf("%+v", struct{ Of any }{credentials}),
	} {
		g.Expect(printed).NotTo(ContainSubstring("a-secret"))
	}
}
