// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command dashboards writes the Grafana dashboards of the operator, each into a file of a folder:
//
//	go run . FOLDER
//
// It is a module of its own, so that the operator does not depend on the library that it uses.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// pages are the dashboards, by the names of their files.
var pages = map[string]func() *page{"scaledjobs": scaledJobs, "scaledjob": scaledJob, "operator": operator}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(folder string) error {
	for name, build := range pages {
		built, err := build().finished()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		content, err := encode(built)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".json"), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func encode(built dashboard.Dashboard) ([]byte, error) {
	content, err := json.MarshalIndent(built, "", "  ")
	return append(content, '\n'), err
}
