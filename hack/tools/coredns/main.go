// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with the plugins that a cluster without a network outside needs. The complete one links
// the clients of several clouds and takes minutes to compile.
package main

import (
	"github.com/coredns/coredns/coremain"
	// Plugins register themselves.
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() { coremain.Run() }
