// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command pause holds the namespaces of a Pod: it waits until it is told to stop.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
}
