// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenancy keeps tenants from taking from each other what all share: how many servers each
// uses ([Claims]), and how many of its calls wait ([Calls]).
package tenancy
