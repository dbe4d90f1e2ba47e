// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

// Flooding is a server that announces growth of each key that is subscribed to, as fast as its clients read. Close it.
type Flooding = Scripted

// StartFlooding starts a server on 127.0.0.1.
func StartFlooding() (*Flooding, error) {
	return StartScripted(func(args []string) string {
		if args[0] != "subscribe" {
			return Usual
		}
		return UsualAnswer(args) + Endless + Push("message", args[1], "lpush")
	})
}
