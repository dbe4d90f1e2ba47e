// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// secrets has a password in each Secret.
type secrets string

func (s secrets) Read(context.Context, string, string) (map[string][]byte, error) {
	return map[string][]byte{"password": []byte(s)}, nil
}

// A hostile server knows the password, and may announce it as the name of a host.
func TestAPasswordThatIsAnnouncedIsNotShown(t *testing.T) {
	t.Parallel()
	const password = "Wonder-7"
	hostile := redistest.NewScripted(t, func(args []string) string {
		switch {
		case args[0] == "cluster" && args[1] == "slots":
			return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:1\r\n", len(password), password)
		case args[0] == "cluster":
			return "-ERR unknown subcommand\r\n"
		}
		return redistest.Usual
	})
	e := deployment(t, auth.ModeCluster, hostile.Addr())
	e.Password, e.Namespace = auth.SecretKey{Name: "redis", Key: "password"}, "team"
	h := followWith(t, connection.NewPool(connection.Options{Secrets: secrets(password)}), e)
	h.Eventually(h.owner("emails")).Should(Equal("wonder-7:1"))
	at, err := h.Route(e, "emails")
	h.Expect(err).NotTo(HaveOccurred())
	told := failure.Classify(h.About(e, at.Owner, failure.Classify(syscall.ECONNREFUSED)))
	h.Expect(told.Message).To(And(ContainSubstring(`announce a node at "[redacted]"`), Not(ContainSubstring("wonder"))))
}
