// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import "strings"

// maxLogged is how many bytes a log has of what a server says. Errors of the client library may
// repeat a reply as a whole.
const maxLogged = 1 << 10

// Shorten returns what a log has of a text: the beginning, if it is long.
func Shorten(text string) string {
	if len(text) <= maxLogged {
		return text
	}
	return strings.ToValidUTF8(text[:maxLogged], "") + "…"
}
