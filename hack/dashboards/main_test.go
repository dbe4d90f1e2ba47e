// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Whoever reads a panel needs to know what it shows, in which unit, and where a value becomes bad.
func TestEveryPanelExplainsItself(t *testing.T) {
	t.Parallel()
	identifiers := map[string]bool{}
	for name, build := range pages {
		built, err := build().finished()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if built.Uid == nil || identifiers[*built.Uid] || len(*built.Uid) > 40 {
			t.Errorf("%s has no identifier of its own that Grafana accepts", name)
		}
		identifiers[*built.Uid] = true
		ids := map[uint32]bool{}
		for _, each := range built.Panels {
			if each.Panel == nil {
				continue
			}
			p := each.Panel
			if ids[*p.Id] {
				t.Errorf("%s: two panels have the number %d", name, *p.Id)
			}
			ids[*p.Id] = true
			defaults := p.FieldConfig.Defaults
			if *p.Title == "" || *p.Description == "" || *defaults.Unit == "" || len(defaults.Thresholds.Steps) == 0 || len(p.Targets) == 0 {
				t.Errorf("%s: the panel %q lacks a title, a description, a unit, thresholds or a query", name, *p.Title)
			}
			if p.GridPos.X+p.GridPos.W > columns {
				t.Errorf("%s: the panel %q is outside of the page", name, *p.Title)
			}
		}
	}
}

func TestEachDashboardIsAFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := write(folder); err != nil {
		t.Fatal(err)
	}
	for name := range pages {
		content, err := os.ReadFile(filepath.Join(folder, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var parsed struct{ Title string }
		if err := json.Unmarshal(content, &parsed); err != nil || parsed.Title == "" {
			t.Errorf("%s is no dashboard: %v", name, err)
		}
	}
}
