// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package install tests what the Helm chart and the kustomizations render. It needs no control plane; package apiserver
// below it sends the objects to one.
package install
