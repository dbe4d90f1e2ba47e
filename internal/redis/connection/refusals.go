// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"slices"
	"time"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// rememberedRefusals is how many accesses are remembered: the one in use and the one to be.
const rememberedRefusals = 2

// refusals are what a server refused last. To try it again and again could lock the user out.
type refusals []refusal

// refusal is when and for what a server refused an access.
type refusal struct {
	of    *auth.Access
	at    time.Time
	cause *failure.Error
}

// note remembers that an access was refused, if that is the cause.
func (r *refusals) note(of *auth.Access, cause *failure.Error) {
	if of == nil || cause.Reason != failure.ReasonAuthFailed {
		return
	}
	r.forget(of)
	*r = append(*r, refusal{of: of, at: time.Now(), cause: cause})
	*r = (*r)[max(0, len(*r)-rememberedRefusals):]
}

// forget notes that an access is not refused any more.
func (r *refusals) forget(of *auth.Access) {
	*r = slices.DeleteFunc(*r, func(last refusal) bool { return last.of.Same(of) })
}

// of is why an access was refused less than this time ago, and nil if it was not.
func (r refusals) of(access *auth.Access, within time.Duration) *failure.Error {
	for _, last := range r {
		if last.of.Same(access) && time.Since(last.at) < within {
			return last.cause
		}
	}
	return nil
}
