// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// maxQueueLabel is the maximum length of the label value of a queue, in bytes.
const maxQueueLabel = 128

// queueLabel returns the label value of a queue. A key may have any bytes, and up to a kilobyte: unprintable characters
// are escaped. If the result is too long, its end is replaced by a hash of the key, so that two keys never have the
// same label value.
func queueLabel(key string) string {
	quoted := strconv.Quote(key)
	label := strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	if len(label) <= maxQueueLabel {
		return label
	}
	sum := sha256.Sum256([]byte(key))
	hash := "…" + hex.EncodeToString(sum[:8])
	return strings.ToValidUTF8(label[:maxQueueLabel-len(hash)], "") + hash
}
