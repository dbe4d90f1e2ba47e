// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// maxQueueLabel is how many bytes the label value of a queue may have.
const maxQueueLabel = 128

// queueLabel is the label value of a queue. A key may hold any bytes, and a kilobyte of them: what can't be printed is escaped, and
// where the result is too long its end is replaced by a hash of the key, so that two keys never share a value.
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
