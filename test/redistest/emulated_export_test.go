// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

// Waiting returns how many clients wait for an element.
func (s *Emulated) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running.mu.Lock()
	defer s.running.mu.Unlock()
	return len(s.running.waiters)
}
