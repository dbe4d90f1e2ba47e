// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"

	"miracle.dev/scaledjob-operator/test/kit/programs"
)

// Kubectl runs kubectl as the administrator and returns what it printed. It is
// found or built by the first call. Nothing of the user's counts: no variable,
// no kubeconfig, no cache. An error holds what kubectl said on standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	path, err := programs.Path(ctx, c.opts.Log, "kubectl")
	if err != nil {
		return "", err
	}
	var output, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"HOME=" + c.sandbox.Dir(), "KUBECONFIG=" + c.Kubeconfig()}
	cmd.Stdout, cmd.Stderr = &output, &complaint
	if err := cmd.Run(); err != nil {
		return output.String(), fmt.Errorf("kubectl %q: %w: %s", args, err, bytes.TrimSpace(complaint.Bytes()))
	}
	return output.String(), nil
}
