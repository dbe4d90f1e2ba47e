// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory tests that nobody can exhaust the memory of the operator: the binary, under the memory limit that is
// shipped, beside more and larger objects than anybody needs. An API server that holds no objects but writes each when
// it is asked for makes that cheap.
package memory

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

const (
	timeout      = 10 * time.Minute
	pollInterval = 50 * time.Millisecond
	manifest     = "../../../config/manager/manager.yaml"
)

// limit is the memory limit of the Deployment, in bytes.
var limit int

func TestMain(m *testing.M) {
	gomega.SetDefaultEventuallyTimeout(timeout)
	gomega.SetDefaultEventuallyPollingInterval(pollInterval)
	if err := setLimit(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// setLimit reads the limit, and sets the environment that the Deployment has the kubelet set.
func setLimit() error {
	content, err := os.ReadFile(manifest)
	if err != nil {
		return err
	}
	found := regexp.MustCompile(`limits:\s+memory: (\d+)Mi`).FindSubmatch(content)
	if found == nil {
		return fmt.Errorf("%s has no memory limit", manifest)
	}
	size, err := strconv.Atoi(string(found[1]))
	limit = size * mib
	if err == nil {
		err = os.Setenv("GOMEMLIMIT", strconv.Itoa(limit))
	}
	return err
}
