// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build quickretry

package failure

import "time"

// RejectedRetry is shorter in the operator that the tests build, so that they do not wait for a minute.
const RejectedRetry = 6 * time.Second
