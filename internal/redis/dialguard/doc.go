// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package dialguard decides which addresses the operator may connect to. Users choose the addresses of their Redis
// servers. Without a restriction they could let the operator connect to services that only the operator or its node can
// reach, such as the metadata service of a cloud.
package dialguard
