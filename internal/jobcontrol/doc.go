// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package jobcontrol is the only writer of Jobs. It creates and deletes them, sends the dry runs of templates, and
// tracks which of its own writes its cache does not show yet.
//
// The operator counts Jobs in the cache of an informer. The cache lags behind the API server by milliseconds, or longer
// if the API server is busy. Counting Jobs before the cache shows the latest ones would create them a second time. So
// the [Gate] records each create, and the operator makes no decision for a ScaledJob until the cache shows its Jobs.
// Two cases need more than the answer of the API server:
//
//   - A create without an answer may or may not have created a Job, and may still do so. While no Job of the ordinal is
//     there, it counts as an active Job, until the API server can no longer carry out the request. Then the gate asks
//     the API server whether the Job exists. An answer to another create of the same name does not end that.
//   - The creates of the previous leader are unknown to this process. So a new process first lists all Jobs from the
//     API server, and waits until the cache shows them. Creates of the previous leader that are still in flight have
//     the same names as those of this process, so that no Job exists twice: see ordinals.go.
//
// A [Creator] sends the creates of a batch and reports the result of each to the gate: the Job was created, it was not,
// its name already exists, or there was no answer. A [Deleter] deletes each Job once, and retries failed deletes. A
// [Limiter] bounds how many creates and deletes of a namespace are under way.
package jobcontrol
