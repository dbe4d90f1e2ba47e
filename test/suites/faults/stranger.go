// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

const (
	// planted is what strangers say wherever they can, and nobody else does.
	planted = "hunter2-of-the-stranger"
	// announcedBytes are announced at once, and then really come.
	announcedBytes = 512 << 20
	hugeString     = "huge string for a length"
)

// Stranger is a server that is taken for Redis and is none, or means harm.
type Stranger struct {
	// Name says what it does.
	Name string
	// Reading and Hearing are the reasons that the operator gives for QueueConnected
	// and for NotificationsActive. Empty means that anything is right.
	Reading, Hearing string
	Script           redistest.Script
}

// Strangers returns one of each way in which a server can be none. The other ways to answer wrongly are tested next to
// the code that reads the answers.
func Strangers() []Stranger {
	const outOfReach = scaledjobv1.ReasonUnreachable
	word := fmt.Sprintf("$%d\r\n%s\r\n", len(planted), planted)
	return []Stranger{
		{"never answers", outOfReach, "", always(redistest.Nothing)},
		{"HTTP", outOfReach, "", always(redistest.Endless + "HTTP/1.1 400 " + planted + "\r\n\r\n")},
		{"error NOPERM", scaledjobv1.ReasonPermissionDenied, "", always("-NOPERM " + planted + "\r\n")},
		{"length is a word", outOfReach, "", lying("llen", word)},
		{hugeString, outOfReach, "", lying("llen", fmt.Sprintf("$%d\r\n", announcedBytes)+redistest.Endless+"x")},
		{"arrays in arrays for a confirmation", scaledjobv1.ReasonConnected, outOfReach, lying("subscribe", redistest.Endless+"*1\r\n")},
	}
}

// always has the same answer to everything.
func always(answer string) redistest.Script { return func([]string) string { return answer } }

// lying answers like an empty Redis, but for one command.
func lying(command, answer string) redistest.Script {
	return func(args []string) string {
		if args[0] == command {
			return answer
		}
		return redistest.Usual
	}
}
