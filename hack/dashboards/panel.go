// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// Units that Grafana has no name for.
const (
	perMinute = "suffix:/min"
	perSecond = "suffix:/s"
	cores     = "suffix: cores"
	plain     = units.Short
	seconds   = units.Seconds
	bytes     = units.BytesIEC
)

const green, yellow, red, blue = "green", "yellow", "red", "blue"

// panel is a panel of a dashboard.
type panel struct {
	kind               func(panel) cog.Builder[dashboard.Panel]
	title, description string
	unit               string
	queries            []query
	// steps are the colors of values, from the lowest on. Without them, all values are green.
	steps []dashboard.Threshold
	// mappings are texts that are shown instead of values.
	mappings map[string]dashboard.ValueMappingResult
	// empty is shown if there is no series.
	empty string
	// link is the address that a click on a value leads to.
	link string
	// stacked puts the lines of a time series on top of each other.
	stacked bool
	// names has a stat show the names of its series instead of their values.
	names bool
	// columns are those of a table.
	columns []column

	id, width, height uint32
}

// query is a query, and the legend of its series.
type query struct{ expr, legend string }

// column is a column of a table: the field of the merged queries, and how it is shown. A query has the letter of its
// place in the panel: the value of the first one is "Value #A". Fields without a column are hidden.
type column struct {
	field, title, unit string
	link               string
	mappings           map[string]dashboard.ValueMappingResult
}

// from is the color of values from a limit on.
func from(limit float64, color string) dashboard.Threshold {
	return dashboard.Threshold{Value: &limit, Color: color}
}

// steps returns the colors of values: one of all below the first limit, and others from their limits on.
func steps(lowest string, others ...dashboard.Threshold) []dashboard.Threshold {
	return append([]dashboard.Threshold{{Color: lowest}}, others...)
}

// shown is a text instead of a value.
func shown(text, color string) dashboard.ValueMappingResult {
	return dashboard.ValueMappingResult{Text: &text, Color: &color}
}

// builder is what the builders of all kinds of panels have in common.
type builder[B any] interface {
	cog.Builder[dashboard.Panel]
	Id(id uint32) B
	Title(title string) B
	Description(description string) B
	Datasource(datasource common.DataSourceRef) B
	Span(width uint32) B
	Height(height uint32) B
	Unit(unit string) B
	NoValue(text string) B
	Thresholds(thresholds cog.Builder[dashboard.ThresholdsConfig]) B
	ColorScheme(color cog.Builder[dashboard.FieldColor]) B
	Mappings(mappings []dashboard.ValueMapping) B
	DataLinks(links []cog.Builder[dashboard.DashboardLink]) B
	WithTarget(target cog.Builder[variants.Dataquery]) B
}

// fill sets what panels of all kinds have. instant asks for one value of each series, that of the end of the time
// range.
func fill[B builder[B]](b B, p panel, instant bool) B {
	colors := p.steps
	if colors == nil {
		colors = steps(green)
	}
	b.Id(p.id).Title(p.title).Description(p.description).Datasource(datasource).Span(p.width).Height(p.height).Unit(p.unit).
		Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(colors))
	if p.empty != "" {
		b.NoValue(p.empty)
	}
	if p.mappings != nil {
		b.Mappings([]dashboard.ValueMapping{mapping(p.mappings)})
	}
	if p.link != "" {
		b.DataLinks([]cog.Builder[dashboard.DashboardLink]{dashboard.NewDashboardLinkBuilder("Open the ScaledJob").Url(p.link)})
	}
	for i, each := range p.queries {
		target := prometheus.NewDataqueryBuilder().Datasource(datasource).Expr(each.expr).LegendFormat(each.legend).
			RefId(string(rune('A' + i))).EditorMode(prometheus.QueryEditorModeCode)
		switch {
		case p.columns != nil:
			target.Instant().Format(prometheus.PromQueryFormatTable)
		case instant:
			target.Instant()
		default:
			target.Range()
		}
		b.WithTarget(target)
	}
	return b
}

func mapping(texts map[string]dashboard.ValueMappingResult) dashboard.ValueMapping {
	return dashboard.ValueMapping{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: texts}}
}

// graph shows values over time.
func graph(p panel) cog.Builder[dashboard.Panel] {
	b := fill(timeseries.NewPanelBuilder(), p, false).Min(0).LineWidth(1).FillOpacity(10).ShowPoints(common.VisibilityModeNever).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdPaletteClassic)).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.stacked {
		b.FillOpacity(40).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	}
	if p.steps != nil {
		b.ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
	}
	return b
}

// number shows values of now.
func number(p panel) cog.Builder[dashboard.Panel] {
	b := fill(stat.NewPanelBuilder(), p, true).GraphMode(common.BigValueGraphModeNone).ColorMode(common.BigValueColorModeValue).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds))
	if p.names {
		b.TextMode(common.BigValueTextModeName)
	}
	return b
}

// bars compares values of now.
func bars(p panel) cog.Builder[dashboard.Panel] {
	return fill(bargauge.NewPanelBuilder(), p, true).Orientation(common.VizOrientationHorizontal).Min(0).
		DisplayMode(common.BarGaugeDisplayModeBasic).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds))
}

// timeline shows which state lasted from when until when.
func timeline(p panel) cog.Builder[dashboard.Panel] {
	return fill(statetimeline.NewPanelBuilder(), p, false).ShowValue(common.VisibilityModeNever).RowHeight(0.8).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds))
}

// list is a table. The queries are merged: what has the same labels is one row.
func list(p panel) cog.Builder[dashboard.Panel] {
	b := fill(table.NewPanelBuilder(), p, true).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds)).
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}})
	order, titles := map[string]int{}, map[string]string{}
	var fields []string
	for i, each := range p.columns {
		order[each.field], titles[each.field], fields = i, each.title, append(fields, each.field)
		if properties := each.properties(); len(properties) > 0 {
			b.OverrideByName(each.title, properties)
		}
	}
	return b.
		WithTransformation(dashboard.DataTransformerConfig{Id: "filterFieldsByName", Options: map[string]any{
			"include": map[string]any{"names": fields},
		}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"indexByName": order, "renameByName": titles,
		}})
}

// properties are what a column has other than the table has.
func (c column) properties() []dashboard.DynamicConfigValue {
	var all []dashboard.DynamicConfigValue
	if c.unit != "" {
		all = append(all, dashboard.DynamicConfigValue{Id: "unit", Value: c.unit})
	}
	if c.link != "" {
		all = append(all, dashboard.DynamicConfigValue{Id: "links", Value: []map[string]string{{"title": "Open the ScaledJob", "url": c.link}}})
	}
	if c.mappings != nil {
		all = append(all, dashboard.DynamicConfigValue{Id: "mappings", Value: []dashboard.ValueMapping{mapping(c.mappings)}},
			dashboard.DynamicConfigValue{Id: "custom.cellOptions", Value: map[string]string{"type": "color-text"}})
	}
	return all
}
