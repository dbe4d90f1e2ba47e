// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redisaccess"
	"miracle.dev/scaledjob-operator/internal/rediserror"
	"miracle.dev/scaledjob-operator/test/redistest"
)

// What a server says ends up in logs, and looking for passwords in it takes time.
func TestALongErrorOfAServerIsCutOff(t *testing.T) {
	t.Parallel()
	const secret = "open sesame"
	for name, endpoint := range map[string]redisaccess.Endpoint{
		"nobody in particular": {},
		"somebody":             {Password: password, Namespace: namespace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			said := "NOPERM " + secret + strings.Repeat(" "+secret[:6], 1<<17)
			server := redistest.NewScripted(t, func(args []string) string {
				if args[0] == "llen" {
					return fmt.Sprintf("!%d\r\n%s\r\n", len(said), said)
				}
				return redistest.Usual
			})
			endpoint.Address = server.Addr()
			pool := startReal(t, withSecrets(newSecrets(map[string]string{"password": secret})))
			_, err := readLength(t.Context(), pool.Conn(endpoint, 0))
			g.Expect(len(err.Error())).To(BeNumerically("<", 10<<10))
			g.Expect(err.Error()).To(ContainSubstring("NOPERM "))
			g.Expect(rediserror.Classify(err).Reason).To(Equal(rediserror.ReasonPermissionDenied))
			g.Expect(rediserror.IsReply(err)).To(BeTrue())
			if endpoint.NeedsSecrets() {
				g.Expect(err.Error()).NotTo(ContainSubstring(secret))
			}
		})
	}
}
