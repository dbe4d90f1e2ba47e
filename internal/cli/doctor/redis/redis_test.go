// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"net"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

func TestSimilarNames(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]bool{
		"Emails": true, "bull:emails:wait": true, "email": true, "emials": true, "e-mails": true, "images": false, "e": false, "": false,
	} {
		NewWithT(t).Expect(similar("emails", name)).To(Equal(is), name)
	}
	NewWithT(t).Expect(similar("::", "--")).To(BeTrue())
}

func TestSlotsOfACluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	covered, addresses := ranges([]any{
		[]any{int64(0), int64(99), []any{"10.0.0.1", int64(6379), "id"}, []any{"10.0.0.2", int64(6379), "id"}},
		[]any{int64(100), int64(199), []any{"", int64(6380), "id"}},
		[]any{int64(200), int64(200), []any{"10.0.0.1", int64(6379), "id"}},
		[]any{"malformed"},
		"malformed",
	}, "redis.mail.svc:6379")
	g.Expect(covered).To(Equal(201))
	g.Expect(addresses).To(Equal([]string{"10.0.0.1:6379", "redis.mail.svc:6380"}))
	_, addresses = ranges(nil, "")
	g.Expect(addresses).To(BeEmpty())
}

func TestNoPasswordIsPrinted(t *testing.T) {
	t.Parallel()
	access := Access{Username: "reader", Password: "a-Secret"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		NewWithT(t).Expect(fmt.Sprintf(verb, access)).To(Equal("credentials"))
		NewWithT(t).Expect(fmt.Sprintf(verb, &Target{Access: access})).NotTo(ContainSubstring("a-Secret"))
	}
}

// A server may answer anything at any time. That is a fault of the server, and no crash.
func TestServersThatAnswerNonsense(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"nonsense\r\n", "*-9\r\n", "%1\r\n+a\r\n", "$99999999999\r\n", ":1\r\n", "_\r\n", "-ERR nonsense\r\n", ""} {
		t.Run(fmt.Sprintf("%q", answer), func(t *testing.T) {
			t.Parallel()
			address := redistest.Listen(t, func(conn net.Conn) {
				buffer := make([]byte, 1024)
				for answer != "" {
					if _, err := conn.Read(buffer); err != nil {
						return
					}
					if _, err := conn.Write([]byte(answer)); err != nil {
						return
					}
				}
			})
			key := Key{Name: "emails", Commands: []Command{{Args: []any{"llen", "emails"}, Grant: "+llen"}}, Together: true}
			is := Look(t.Context(), &Target{
				Addresses: []string{address}, Keys: []Key{key}, Channels: []string{"__keyspace@0__:emails"}, Tracking: true, Scan: true, Probe: true, Cluster: true,
			})
			NewWithT(t).Expect(is.Server).NotTo(BeNil())
		})
	}
}
