// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build quickretry

package failure

import "time"

// RejectedRetry is shorter in the operator that make test builds, so that its tests do not wait for a minute.
const RejectedRetry = 6 * time.Second
