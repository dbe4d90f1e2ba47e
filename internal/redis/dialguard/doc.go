// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package dialguard decides which addresses may be connected to, where other people name the
// servers. Who may name a server could otherwise have the operator knock at places that only the
// operator, or only its node, can reach: the metadata service of the cloud, for instance.
package dialguard
