// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Command plot draws the plots that it reads from its standard input, a list as JSON, into SVG files of a folder:
//
//	go run . FOLDER
//
// It is a module of its own, because nothing else needs a library for plots.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width, height = 18 * vg.Centimeter, 10 * vg.Centimeter
	thick, thin   = vg.Length(1.6), vg.Length(1.1)
	margin        = vg.Length(8)
	legendLine    = vg.Length(13)
	// panelColumns is how many panels are next to each other.
	panelColumns = 2
)

// colours can be told apart by people who do not see all colours alike.
var colours = []color.Color{
	color.RGBA{R: 0, G: 114, B: 178, A: 255},
	color.RGBA{R: 213, G: 94, B: 0, A: 255},
	color.RGBA{R: 0, G: 158, B: 115, A: 255},
	color.RGBA{R: 204, G: 121, B: 167, A: 255},
	color.RGBA{R: 230, G: 159, B: 0, A: 255},
	color.RGBA{R: 86, G: 180, B: 233, A: 255},
}

// dashes are those of a line that others are compared with.
var dashes = []vg.Length{5, 3}

type plot struct {
	File  string `json:"file"`
	Title string `json:"title"`
	X     axis   `json:"x"`
	Y     axis   `json:"y"`
	Lines []line `json:"lines"`
	Sum   string `json:"sum"`
	// Panels are drawn instead, next to each other and below each other. They have neither files nor panels.
	Panels []plot `json:"panels"`
}

type axis struct {
	Label string `json:"label"`
	Log   bool   `json:"log"`
	// Zero has the axis begin at 0.
	Zero bool `json:"zero"`
}

type line struct {
	Name      string       `json:"name"`
	Points    [][2]float64 `json:"points"`
	Reference bool         `json:"reference"`
}

func main() {
	if err := run(os.Stdin, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(input io.Reader, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: plot FOLDER")
	}
	var plots []plot
	if err := json.NewDecoder(input).Decode(&plots); err != nil {
		return err
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	for _, p := range plots {
		if err := p.save(args[0]); err != nil {
			return fmt.Errorf("drawing %s: %w", p.File, err)
		}
	}
	return nil
}

// save writes the file, whose last line says what it was drawn from.
func (p plot) save(folder string) (err error) {
	file, err := os.Create(filepath.Join(folder, p.File))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := p.write(file); err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "<!-- %s -->\n", p.Sum)
	return err
}

func (p plot) write(out io.Writer) error {
	panels, columns := p.Panels, panelColumns
	if len(panels) == 0 {
		panels, columns = []plot{p}, 1
	}
	var below vg.Length
	for _, panel := range panels {
		below = max(below, legendLine*vg.Length(len(panel.Lines))+margin)
	}
	rows, each := (len(panels)+columns-1)/columns, height+below
	canvas := vgsvg.New(width*vg.Length(columns), each*vg.Length(rows))
	whole := draw.New(canvas)
	for i, panel := range panels {
		column, row := vg.Length(i%columns), vg.Length(i/columns)
		at := draw.Crop(whole, column*width, -(vg.Length(columns-1)-column)*width, (vg.Length(rows-1)-row)*each, -row*each)
		if err := panel.draw(at, below); err != nil {
			return err
		}
	}
	_, err := canvas.WriteTo(out)
	return err
}

// draw draws a plot, and its legend in so much room below it.
func (p plot) draw(on draw.Canvas, below vg.Length) error {
	drawn := gonum.New()
	drawn.Title.Text, drawn.X.Label.Text, drawn.Y.Label.Text = p.Title, p.X.Label, p.Y.Label
	drawn.Add(plotter.NewGrid())
	legend := gonum.NewLegend()
	legend.Top, legend.Left, legend.Padding = true, true, margin/4
	if err := p.addLines(drawn, &legend); err != nil {
		return err
	}
	if err := errors.Join(p.X.apply(&drawn.X), p.Y.apply(&drawn.Y)); err != nil {
		return err
	}
	drawn.Draw(draw.Crop(on, margin, -margin, below, -margin))
	legend.Draw(draw.Crop(on, margin, -margin, 0, -height-margin/2))
	return nil
}

// addLines gives a line and its reference the same colour, if they follow each other.
func (p plot) addLines(to *gonum.Plot, legend *gonum.Legend) error {
	if len(p.Lines) == 0 {
		return errors.New("there are no lines")
	}
	colour := -1
	for i, l := range p.Lines {
		if len(l.Points) == 0 {
			return fmt.Errorf("the line %s has no points", l.Name)
		}
		points := make(plotter.XYs, len(l.Points))
		for j, point := range l.Points {
			points[j] = plotter.XY{X: point[0], Y: point[1]}
		}
		curve, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("the line %s: %w", l.Name, err)
		}
		if i == 0 || l.Reference || !p.Lines[i-1].Reference {
			colour++
		}
		curve.Width, curve.Color = thick, colours[colour%len(colours)]
		if l.Reference {
			curve.Width, curve.Dashes = thin, dashes
		}
		to.Add(curve)
		legend.Add(l.Name, curve)
	}
	return nil
}

// apply makes the scale of an axis. A logarithm has no place for 0.
func (a axis) apply(to *gonum.Axis) error {
	if a.Zero {
		to.Min = min(to.Min, 0)
	}
	if !a.Log {
		return nil
	}
	if to.Min <= 0 {
		return fmt.Errorf("%s has the value %g, which has no logarithm", a.Label, to.Min)
	}
	const step = 10 // Whole steps, so that there are numbers on the axis.
	to.Min = math.Pow(step, math.Floor(math.Log10(to.Min)))
	to.Max = math.Pow(step, math.Ceil(math.Log10(math.Nextafter(to.Max, math.Inf(1)))))
	to.Scale, to.Tick.Marker = gonum.LogScale{}, gonum.LogTicks{Prec: -1}
	return nil
}
