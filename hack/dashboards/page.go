// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// The identifiers of the dashboards, which are in their addresses, and the tag by which a search in Grafana finds them.
const (
	tag           = "scaledjob-operator"
	scaledJobsUID = "scaledjob-operator-scaledjobs"
	scaledJobUID  = "scaledjob-operator-scaledjob"
	operatorUID   = "scaledjob-operator-operator"
)

// columns are how wide a dashboard is.
const columns = 24

// datasource is what the variable of that name selects.
var datasource = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// page is a dashboard.
type page struct {
	*dashboard.DashboardBuilder
	id uint32
}

func newPage(uid, title, description string, variables ...cog.Builder[dashboard.VariableModel]) *page {
	built := dashboard.NewDashboardBuilder(title).Uid(uid).Description(description).Tags([]string{tag}).
		Editable().Timezone("browser").Time("now-1h", "now").Refresh("30s").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus"))
	for _, variable := range variables {
		built.WithVariable(variable)
	}
	for _, other := range []struct{ uid, title string }{{scaledJobsUID, "ScaledJobs"}, {operatorUID, "Operator"}} {
		if other.uid != uid {
			// Not with all variables: "all namespaces" is no namespace of a single ScaledJob.
			built.Link(dashboard.NewDashboardLinkBuilder(other.title).Type(dashboard.DashboardLinkTypeLink).Icon("dashboard").
				Url("/d/" + other.uid + "?var-datasource=${datasource}").KeepTime(true))
		}
	}
	return &page{DashboardBuilder: built}
}

// finished is the dashboard. The library would put the links into a menu.
func (p *page) finished() (dashboard.Dashboard, error) {
	built, err := p.Build()
	for i := range built.Links {
		built.Links[i].Placement = nil
	}
	return built, err
}

// row adds panels next to each other, all as wide as each other, below a title.
func (p *page) row(title string, height uint32, panels ...panel) {
	if title != "" {
		p.id++
		p.WithRow(dashboard.NewRowBuilder(title).Id(p.id))
	}
	for _, each := range panels {
		p.id++
		each.id, each.height, each.width = p.id, height, columns/uint32(len(panels))
		p.WithPanel(each.kind(each))
	}
}

// variable is one that takes the values of a label. The user selects one of them.
func variable(name, label, query string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(datasource).
		Query(dashboard.StringOrMap{Map: map[string]any{"qryType": 1, "query": query, "refId": name}}).Definition(query).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
}

// several is a variable of which the user selects several values, at first all.
func several(name, label, query string) *dashboard.QueryVariableBuilder {
	all := dashboard.VariableOption{Selected: cog.ToPtr(true)}
	all.Text.String, all.Value.String = cog.ToPtr("All"), cog.ToPtr("$__all")
	return variable(name, label, query).Multi(true).IncludeAll(true).AllValue(".*").Current(all)
}
