// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

// StartFlooding starts a server on 127.0.0.1 that notifies of growth of each key that is subscribed to, as fast as its
// clients read. Close it.
func StartFlooding() (*Scripted, error) {
	return StartScripted(func(args []string) string {
		if args[0] != "subscribe" {
			return Usual
		}
		return UsualAnswer(args) + Endless + Push("message", args[1], "lpush")
	})
}
