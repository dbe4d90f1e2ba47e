// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"miracle.dev/scaledjob-operator/test/kit/cluster/toolcache"
)

// Versions runs each program and returns what it says of its version. The error of one that does not run, because its
// file is cut off or for another machine, says which folder to remove.
func Versions(ctx context.Context, paths map[Program]string) (map[Program]string, error) {
	group, together := errgroup.WithContext(ctx)
	var mu sync.Mutex
	versions := map[Program]string{}
	for program, path := range paths {
		group.Go(func() error {
			args := []string{"--version"}
			if program == Kubectl {
				args = []string{"version", "--client"}
			}
			output, err := exec.CommandContext(together, path, args...).Output()
			if err != nil {
				return fmt.Errorf("%s does not run: %w%s", path, err, toolcache.Remedy(path))
			}
			mu.Lock()
			defer mu.Unlock()
			versions[program] = strings.TrimSpace(string(output))
			return nil
		})
	}
	return versions, group.Wait()
}
