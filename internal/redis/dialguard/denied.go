// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package dialguard

// DeniedError says that a connection was not made, since nobody may have one to that address.
type DeniedError struct {
	// Why names the rule and the address. It belongs in a log, not in a status: what a name
	// resolves to is nobody's business who may not ask.
	Why string
}

func (e *DeniedError) Error() string { return "refused to connect: " + e.Why }
