// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package jobcontrol is the only writer of Jobs. It creates and deletes them, sends the dry runs of templates, and knows which of its own
// writes its cache has not shown yet.
//
// The operator counts Jobs in an informer's cache, which lags behind the API server by milliseconds, or by much more when the API server is
// busy. Whoever counts before the cache holds the Jobs created a moment ago creates them again. So the [Gate] notes each write, and until the
// cache has caught up with it, nothing is decided for that ScaledJob. Two kinds of writes need more than their answer:
//
//   - A create that ended without an answer may or may not have made a Job. Its ordinal is kept, and counts as an active Job, until the same
//     name has been sent again, or so much time has passed that the API server cannot carry out the request any more. Then the API server is
//     asked whether there is such a Job.
//   - The writes of the process that led before this one are unknown. So a new process lists all Jobs once from the API server, and waits
//     until the cache shows them. Creates still under way are met by name: see ordinals.go.
//
// A [Creator] sends the creates of a batch and tells the gate what became of each: the Job was created, it was not, its name was taken, or
// there was no answer. A [Deleter] sends each delete once, and again later where it failed.
package jobcontrol
