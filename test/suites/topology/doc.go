// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package topology tests the operator with sentinels and with Redis Clusters: masters fail and are replaced, and slots
// move. No wake-up is lost and no Job is one too many, as far as Redis itself loses nothing.
package topology
