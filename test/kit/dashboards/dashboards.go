// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboards reads the queries of Grafana dashboards:
//
//	queries, err := dashboards.Read("config/grafana")
//	expression := queries[0].Fill(map[string]string{"namespace": "mail"})
package dashboards

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Query is what a panel, or a variable, asks Prometheus for.
type Query struct {
	// Dashboard is the name of the file, without its ending.
	Dashboard string
	// Panel is the title of the panel, or "variable NAME".
	Panel string
	// Expr is in PromQL, with variables such as $namespace.
	Expr string
	// Legend names a series by its labels, such as "{{namespace}}". It is empty where there is only one.
	Legend string
}

// dashboard are the fields of a file that have queries.
type dashboard struct {
	Panels []struct {
		Title   string `json:"title"`
		Targets []struct {
			Expr   string `json:"expr"`
			Legend string `json:"legendFormat"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

// Read returns all queries of the dashboards in a folder. None is an error.
func Read(folder string) ([]Query, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Query
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var read dashboard
		if err := json.Unmarshal(content, &read); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, read.queries(strings.TrimSuffix(filepath.Base(path), ".json"))...)
	}
	if len(all) == 0 {
		return nil, errors.New("there are no queries in " + folder)
	}
	return all, nil
}

// labelValues is the query of a variable, which Grafana answers from the series of Prometheus.
var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

func (d dashboard) queries(name string) []Query {
	var all []Query
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			all = append(all, Query{name, panel.Title, target.Expr, target.Legend})
		}
	}
	for _, variable := range d.Templating.List {
		if match := labelValues.FindStringSubmatch(variable.Definition); match != nil {
			all = append(all, Query{name, "variable " + variable.Name, fmt.Sprintf("group by (%s) (%s)", match[2], match[1]), ""})
		}
	}
	return all
}

// labels are those in a legend.
var labels = regexp.MustCompile(`\{\{(\w+)\}\}`)

// Name returns what Grafana calls a series with these labels.
func (q Query) Name(of map[string]string) string {
	return strings.TrimSpace(labels.ReplaceAllStringFunc(q.Legend, func(label string) string { return of[strings.Trim(label, "{}")] }))
}

// variables are those in a query. Grafana replaces them before it asks Prometheus.
var variables = regexp.MustCompile(`\$\w+`)

// Fill returns the expression with these values of the variables, by their names. Other variables stay.
func (q Query) Fill(values map[string]string) string {
	return variables.ReplaceAllStringFunc(q.Expr, func(variable string) string {
		if value, known := values[strings.TrimPrefix(variable, "$")]; known {
			return value
		}
		return variable
	})
}
