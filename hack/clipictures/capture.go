// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// prompt is what the shell of the picture shows before a command.
const prompt = "$ "

// capture runs a command in a terminal of this size, and returns the screen with its colors, as hack/picture reads it.
func capture(ctx context.Context, plugin, kubeconfig string, what command, columns, rows int) ([]byte, error) {
	server := fmt.Sprintf("scaledjob-picture-%d-%s", os.Getpid(), what.name)
	tmux := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "tmux", append([]string{"-L", server, "-f", os.DevNull}, args...)...)
		return cmd.CombinedOutput()
	}
	// The last line is that of the next command. Until then the screen is not complete.
	const end = "\x1b]2;ended\a"
	shown := fmt.Sprintf("printf '%skubectl scaledjob %s\\n'; KUBECONFIG=%s COLORTERM= %s %s; printf '%s%s'; sleep 600",
		prompt, what.args, kubeconfig, plugin, what.args, prompt, end)
	output, err := tmux("new-session", "-d", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows), "env -u NO_COLOR sh -c "+quoted(shown))
	if err != nil {
		return nil, fmt.Errorf("starting tmux: %w: %s", err, output)
	}
	defer func() { _, _ = tmux("kill-server") }()
	if what.lasts > 0 {
		if err := sjtest.Pause(ctx, what.lasts); err != nil {
			return nil, err
		}
		return tmux("capture-pane", "-e", "-p")
	}
	err = sjtest.Await(ctx, func(context.Context) error {
		title, err := tmux("display-message", "-p", "#{pane_title}")
		if err == nil && strings.TrimSpace(string(title)) != "ended" {
			err = fmt.Errorf("the command runs")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	_ = sjtest.Pause(ctx, 200*time.Millisecond) // The terminal draws what it has read.
	return tmux("capture-pane", "-e", "-p")
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
