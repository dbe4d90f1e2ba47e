// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"cmp"
	"errors"
	"go/ast"
	"go/build"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const (
	limitsPage = "docs/contributing/limits.md"
	module     = "miracle.dev/scaledjob-operator/"
)

// notLimits are times in the code that limit nothing a reader could meet.
var notLimits = []string{"controller.never", "enqueue.afterBackoff"}

func TestLimitsHaveTheValuesOfTheCode(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	code := readCode(t)
	named := map[string]bool{}
	for _, row := range limitRows(t) {
		g.Expect(row.constants).To(HaveLen(len(row.values)), row.what)
		for i, name := range row.constants {
			named[name] = true
			g.Expect(code).To(HaveKey(name))
			g.Expect(code[name].equals(row.values[i])).To(BeTrue(), "%s is %s, and the page says %q", name, code[name], row.value)
		}
	}
	var missing []string
	for name, value := range code {
		if value.time && value.written && !named[name] {
			missing = append(missing, name)
		}
	}
	g.Expect(missing).To(ConsistOf(notLimits), "name each in a row of "+limitsPage)
}

func TestFlagsThatSetLimitsHaveTheirDefaults(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	code := readCode(t)
	var expected, named []string
	declared := regexp.MustCompile(`flags\.(?:Int|Duration|Float64|Uint)\w*Var\([^,]+, "([\w-]+)", ([^,]+),`)
	for _, flag := range declared.FindAllStringSubmatch(read(t, "cmd/options.go")+read(t, "cmd/election.go"), -1) {
		name := flag[2]
		if !strings.Contains(name, ".") {
			name = "main." + name
		}
		g.Expect(code).To(HaveKey(name), flag[1])
		expected = append(expected, flag[1]+" "+code[name].String())
	}
	for _, row := range limitRows(t) {
		for _, flag := range row.flags {
			named = append(named, flag+" "+row.values[0].String())
		}
	}
	g.Expect(named).To(ConsistOf(expected))
}

func TestLimitsOfTheDeploymentAreThoseOfItsManifest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	row := regexp.MustCompile("(?m)^\\| [^|]+ \\| (\\w+) \\| `([\\w.]+)` \\|$")
	rows := row.FindAllStringSubmatch(section(t, limitsPage, "\n## Deployment\n"), -1)
	g.Expect(rows).NotTo(BeEmpty())
	for _, row := range rows {
		manifest := read(t, "config/manager/manager.yaml")
		for key := range strings.SplitSeq(row[2], ".") {
			var found bool
			_, manifest, found = strings.Cut(manifest, " "+key+":")
			g.Expect(found).To(BeTrue(), row[2])
		}
		value, _, _ := strings.Cut(manifest, "\n")
		g.Expect(strings.TrimSpace(value)).To(Equal(row[1]), row[2])
	}
}

// limitRow is a row of the page.
type limitRow struct {
	what, value      string
	values           []quantity
	constants, flags []string
}

// limitRows are the rows that say what sets a limit.
func limitRows(t *testing.T) []limitRow {
	t.Helper()
	g := NewWithT(t)
	var rows []limitRow
	text, _, found := strings.Cut(read(t, limitsPage), "\n## Deployment\n")
	g.Expect(found).To(BeTrue())
	for _, line := range all(`(?m)^\| (.+) \|$`, text) {
		cells := strings.Split(line, " | ")
		if cells[0] == "limit" {
			continue
		}
		g.Expect(cells).To(HaveLen(4), line)
		row := limitRow{
			what: cells[0], value: cells[1], values: quantitiesIn(cells[1]),
			constants: all("`([a-z]\\w*(?:\\.\\w+)+)`", cells[3]), flags: all("`--([\\w-]+)`", cells[3]),
		}
		g.Expect(row.constants).NotTo(BeEmpty(), row.what)
		rows = append(rows, row)
	}
	g.Expect(rows).NotTo(BeEmpty())
	return rows
}

// quantity is a number, or a time in nanoseconds.
type quantity struct {
	number constant.Value
	time   bool
	// written is whether it is not only another name of a constant.
	written bool
}

func (q quantity) equals(other quantity) bool {
	return q.time == other.time && constant.Compare(q.number, token.EQL, other.number)
}

func (q quantity) String() string {
	if q.time {
		return constant.BinaryOp(constant.ToFloat(q.number), token.QUO, constant.MakeInt64(1e9)).String() + " s"
	}
	return q.number.String()
}

// quantitiesIn are the quantities in a cell, as "50 ms up to 30 s" or "5 of 256 bytes".
func quantitiesIn(cell string) []quantity {
	times := map[string]int64{"ns": 1, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}
	factors := map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20}
	var found []quantity
	for _, match := range regexp.MustCompile(`(\d[\d,]*(?:\.\d+)?)(?: (%|(?:ns|ms|s|min|h|KiB|MiB)\b))?`).FindAllStringSubmatch(cell, -1) {
		number := constant.MakeFromLiteral(strings.ReplaceAll(match[1], ",", ""), token.FLOAT, 0)
		if match[2] == "%" {
			number = constant.BinaryOp(number, token.QUO, constant.MakeInt64(100))
		}
		factor := cmp.Or(times[match[2]], factors[match[2]], 1)
		found = append(found, quantity{number: constant.BinaryOp(number, token.MUL, constant.MakeInt64(factor)), time: times[match[2]] != 0})
	}
	return found
}

// code finds the numbers and times in the code: constants as package.name, and what a variable or a function gives to a
// field as package.variable.field. It type-checks the operator's own packages; what needs others has no value.
type code struct {
	files    *token.FileSet
	standard types.Importer
	packages map[string]*types.Package
	values   map[string]quantity
}

// readCode reads all that is no test.
func readCode(t *testing.T) map[string]quantity {
	t.Helper()
	g := NewWithT(t)
	found := &code{token.NewFileSet(), importer.Default(), map[string]*types.Package{}, map[string]quantity{}}
	for _, path := range productFiles(t, "cmd", "internal") {
		g.Expect(found.Import(module + filepath.ToSlash(filepath.Dir(path)))).Error().NotTo(HaveOccurred())
	}
	return found.values
}

// Import is that of [types.Importer].
func (c *code) Import(path string) (*types.Package, error) {
	below, ours := strings.CutPrefix(path, module)
	switch {
	case c.packages[path] != nil:
		return c.packages[path], nil
	case path == "time" || path == "math":
		return c.standard.Import(path)
	case !ours:
		return nil, errors.New("not needed for a number")
	}
	source, err := build.ImportDir(filepath.Join(root, filepath.FromSlash(below)), 0)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range source.GoFiles {
		file, err := parser.ParseFile(c.files, filepath.Join(source.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: c, Error: func(error) {}}
	checked, _ := config.Check(path, c.files, files, info)
	c.packages[path] = checked
	for _, file := range files {
		for _, declaration := range file.Decls {
			c.note(source.Name, declaration, info)
		}
	}
	return checked, nil
}

// note notes the values in a declaration.
func (c *code) note(in string, declaration ast.Decl, info *types.Info) {
	owner := in
	function, local := declaration.(*ast.FuncDecl)
	if local {
		owner += "." + function.Name.Name
	}
	ast.Inspect(declaration, func(node ast.Node) bool {
		switch of := node.(type) {
		case *ast.ValueSpec:
			if !local {
				owner = in + "." + of.Names[0].Name
			}
			for i, name := range of.Names {
				if number, is := info.Defs[name].(*types.Const); is {
					c.noteValue(in+"."+name.Name, number.Val(), number.Type(), true)
				} else if !local && i < len(of.Values) {
					c.noteExpression(in+"."+name.Name, of.Values[i], info)
				}
			}
		case *ast.KeyValueExpr:
			c.noteExpression(owner+"."+types.ExprString(of.Key), of.Value, info)
		}
		return true
	})
}

func (c *code) noteExpression(name string, expression ast.Expr, info *types.Info) {
	_, computed := expression.(*ast.BinaryExpr)
	c.noteValue(name, info.Types[expression].Value, info.Types[expression].Type, computed)
}

// noteValue notes what is a number.
func (c *code) noteValue(name string, value constant.Value, of types.Type, written bool) {
	if value != nil && (value.Kind() == constant.Int || value.Kind() == constant.Float) {
		c.values[name] = quantity{value, of.String() == "time.Duration", written}
	}
}
