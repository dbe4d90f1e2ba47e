// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// A node of a Cluster announces a master at an IPv6 address whose zone is no valid UTF-8. The address becomes the label of
// metrics, which panics.
func TestAnAnnouncedAddressEndsNoOperator(t *testing.T) {
	t.Parallel()
	const host = "fd00::1%\xff"
	hostile := redistest.NewScripted(t, func(args []string) string {
		switch {
		case args[0] != "cluster":
			return redistest.Usual
		case args[1] != "slots":
			return "-ERR unknown subcommand\r\n"
		}
		return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:6379\r\n", len(host), host)
	})
	own := ownControlPlane(t)
	s := newScaledJobIn(t, own)
	s.create(at(hostile.Addr()), func(spec *scaledjobv1.ScaledJobSpec) { spec.Redis.Mode = scaledjobv1.RedisCluster })
	s.awaitFalse(scaledjobv1.ConditionQueueConnected, scaledjobv1.ReasonUnreachable, "")
	s.Consistently(own.operator.Exited()).WithTimeout(2 * time.Second).ShouldNot(BeClosed())
}
