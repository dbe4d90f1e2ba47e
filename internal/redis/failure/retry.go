// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !quickretry

package failure

import "time"

// RejectedRetry is the time until a command that the server has rejected is repeated, because Redis logs each rejected
// command in its ACL LOG. Rejected credentials are repeated, and Secrets in use read again, after half of it.
const RejectedRetry = time.Minute
